"""Puts contact phenomena around the steps of many worlds: contacts are read, and what answers them is written anew.

MuJoCo's own contact has one friction coefficient a pair, and a spring and damper that do not know their load. Here each
governed geom has contact sensors; every few steps their forces, depths and velocities set its coefficient and its
spring for the steps that follow:

    geom_friction[0] = mu0 * ellipse(direction of the tangential force) * stribeck(speed)
    geom_solref      = (-k, -b),  k = k0 * toe(load) * (1 + eta z),  b = b0, or lambda k r with `Dissipation`

What is approximated, and how:

- The laws are one update late: a contact that begins or turns round is answered a step (`Phenomena.every`) later.
- One number a geom: its contacts share a coefficient and a spring, from their summed force and mean depth.
- `anisotropy` gives the coefficient its direction, but the engine's friction stays opposite to the sliding; an ellipse
  with an associated flow rule would also turn the force.
- `toe_stiffness` and `hysteresis` set a secant stiffness. MuJoCo's spring is scaled by the inertia that a contact sees
  and by the impedance (`solimp`), so that ratios of stiffness follow the law, not newtons per metre.
- MuJoCo's friction shares the damper of the normal force, so that a spring of its own would let held things creep away.
  Between geoms each governed contact is therefore an explicit pair, whose `solreffriction` stays the surface's. A flex
  has no pairs: there softer springs creep faster, and `dissipation` is refused.
- `tendon_compliance` needs actuators that pull on tendons with a force.

Governed geoms get a contact priority above all others, so that theirs are the numbers that count. With nothing on, no
sensor and no pair is added, and no step is cut.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Phenomena
from dexprior.worlds.contact_laws import bouc_wen, capstan, ellipse_radius, stribeck, tendon_tension, toe_secant

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.view import View

__all__ = ["Governed", "PhenomenaOfWorlds", "govern"]

_SLOTS = 4  # contacts of a geom that are read, the strongest first; two boxes have four at a face
_READ = 1 | 2 | 8 | 32 | 64 | 128  # found, force, dist, normal, tangent, linvel
_WIDTH = 1 + 3 + 1 + 3 + 3 + 3
_STRONGEST = 2  # mjSENS_CONTACT's reduction by force
_PREFIX = "phenomena/"
_PRESLIDING = 1e-3  # [m] over which a cable turns from sliding one way to the other; assumed


@dataclass(frozen=True)
class Governed:
    """What the phenomena act on in a compiled scene."""

    surfaces: tuple[str, ...]
    """Geoms."""
    pairs: tuple[tuple[str, int], ...]
    """Names of pairs, and which surface governs each."""


def govern(spec: mujoco.MjSpec, phenomena: Phenomena) -> Governed:
    """Give the governed geoms sensors, priority, and where their springs change, pairs with what they may touch.

    Raises:
        UnknownName: no geom is meant.
        BadInput: dissipation beside a flex.
    """
    import mujoco

    names = [geom.name for geom in spec.geoms if geom.name]
    geoms = [geom for geom in spec.geoms if geom.name and fnmatch.fnmatchcase(geom.name, phenomena.surfaces)]
    if not geoms:
        raise UnknownName("geom for phenomena", phenomena.surfaces, names)
    if phenomena.dissipation is not None and list(spec.flexes):
        raise BadInput(
            "dissipation: the scene holds a flex, whose friction would lose its damper; use toe_stiffness or hysteresis"
        )
    above = max((geom.priority for geom in spec.geoms if geom not in geoms), default=0)
    for geom in geoms:
        geom.priority = max(geom.priority, above + 1)
        sensor = spec.add_sensor(
            name=_PREFIX + geom.name, type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=mujoco.mjtObj.mjOBJ_GEOM,
            objname=geom.name,
        )  # fmt: skip
        sensor.intprm = [_READ, _STRONGEST, _SLOTS]
    pairs: list[tuple[str, int]] = []
    if _has_springs(phenomena):
        for k, geom in enumerate(geoms):
            for other in spec.geoms:
                governed_before = any(other.name == g.name for g in geoms[: k + 1])
                if governed_before or not _may_touch(geom, other):
                    continue
                if not other.name:
                    other.name = f"{_PREFIX}geom{len(pairs)}"
                name = f"{_PREFIX}{geom.name}/{other.name}"
                spec.add_pair(
                    name=name, geomname1=geom.name, geomname2=other.name, condim=max(geom.condim, 1),
                    margin=geom.margin + other.margin, gap=geom.gap + other.gap,
                )  # fmt: skip
                pairs.append((name, k))
    return Governed(surfaces=tuple(geom.name for geom in geoms), pairs=tuple(pairs))


def _may_touch(one: Any, other: Any) -> bool:
    """Whether MuJoCo's filters let two geoms collide: by their bits, and not along one joint."""
    bits = (one.contype & other.conaffinity) or (other.contype & one.conaffinity)
    mine, its = one.parent, other.parent
    same = mine.name == its.name
    related = (mine.parent is not None and mine.parent.name == its.name and its.name != "world") or (
        its.parent is not None and its.parent.name == mine.name and mine.name != "world"
    )
    return bool(bits) and not same and not related


def _has_springs(phenomena: Phenomena) -> bool:
    parts = (phenomena.toe_stiffness, phenomena.dissipation, phenomena.hysteresis)
    return any(part is not None for part in parts)


class PhenomenaOfWorlds:
    """The phenomena of n worlds; everything that they remember is in the view's memory, and so in snapshots.

    Args:
        phenomena: what is on.
        governed: see `govern`.
        view: of the worlds.
        written: fields of the model that the family writes itself.

    Raises:
        BadInput: tendon compliance where no actuator pulls on a tendon.
    """

    def __init__(self, phenomena: Phenomena, governed: Governed, view: View, written: tuple[str, ...]) -> None:
        model, n, surfaces = view.model, view.n, governed.surfaces
        self._on, self._view, self._written = phenomena, view, written
        self._geoms = np.array([model.geom(name).id for name in surfaces])
        self._sensed = np.concatenate(
            [model.sensor(_PREFIX + name).adr[0] + np.arange(_SLOTS * _WIDTH) for name in surfaces]
        )
        self._timestep = model.opt.timestep
        self._rubs = phenomena.anisotropy is not None or phenomena.stribeck is not None
        self._springs = _has_springs(phenomena)
        self._pairs = np.array([model.pair(name).id for name, _ in governed.pairs], dtype=int)
        self._owners = np.array([surface for _, surface in governed.pairs], dtype=int)
        self._base: dict[str, np.ndarray] = {}
        for name in ("geom_friction", "geom_solref", "geom_solimp"):
            if self._springs or (self._rubs and name == "geom_friction"):
                self._base[name] = np.array(view.model_field(name)[:, self._geoms])
        self._fill_pairs(np.arange(n))
        self._tendons = _pullers(model) if phenomena.tendon_compliance is not None else []
        if phenomena.tendon_compliance is not None and not self._tendons:
            raise BadInput("tendon_compliance: no actuator of this robot pulls on a tendon with a force")
        self._pulls = np.array([t.actuator for t in self._tendons], dtype=int)
        g, m = len(self._geoms), len(self._tendons)
        self._shapes = {
            "friction": np.ones((n, g)), "load": np.zeros((n, g)), "depth": np.zeros((n, g)), "z": np.zeros((n, g)),
        } | {name: np.zeros((n, m)) for name in ("length", "before", "tension", "slide", "bend")}  # fmt: skip
        if phenomena.anisotropy is not None:
            view.field("geom_xmat")
        if self._tendons:
            view.field("ten_length")

    def rebase(self, ids: np.ndarray) -> None:
        """After parameters were written in some worlds: they are the numbers that the laws multiply."""
        for name, base in self._base.items():
            if name in self._written:
                base[ids] = self._view.model_field(name)[np.ix_(ids, self._geoms)]
        self._fill_pairs(ids)

    def _fill_pairs(self, ids: np.ndarray) -> None:
        """Give the pairs the numbers of the surfaces that govern them."""
        if not len(self._pairs):
            return
        at, view = np.ix_(ids, self._pairs), self._view
        view.model_field("pair_friction")[at] = self._base["geom_friction"][ids][:, self._owners][..., [0, 0, 1, 2, 2]]
        view.model_field("pair_solimp")[at] = self._base["geom_solimp"][ids][:, self._owners]
        view.model_field("pair_solreffriction")[at] = self._base["geom_solref"][ids][:, self._owners]

    def reset(self, ids: np.ndarray) -> None:
        """Nothing touches yet, tendons carry what is commanded. Outputs of the worlds are current."""
        for name, start in self._shapes.items():
            self._memory(name)[ids] = start[ids]
        if self._tendons:
            view = self._view
            self._memory("tension")[ids] = view.ctrl[np.ix_(ids, self._pulls)]
            length, bend = self._routes(ids)
            self._memory("length")[ids] = self._memory("before")[ids] = length
            self._memory("bend")[ids] = bend

    def blocks(self, steps: int) -> list[int]:
        """A number of steps, cut where there are updates."""
        every = self._on.every
        return [every] * (steps // every) + ([steps % every] if steps % every else [])

    def write(self, ids: np.ndarray, commanded: Float[np.ndarray, "m actuator"], steps: int) -> None:
        """Set coefficients, springs and tensions for the steps that follow."""
        view, on = self._view, self._on
        at, paired = np.ix_(ids, self._geoms), np.ix_(ids, self._pairs)
        if self._rubs:
            coefficient = self._base["geom_friction"][ids, :, 0] * self._memory("friction")[ids]
            view.model_field("geom_friction")[..., 0][at] = coefficient
            if len(self._pairs):
                sliding = view.model_field("pair_friction")
                sliding[..., 0][paired] = sliding[..., 1][paired] = coefficient[:, self._owners]
        if self._springs:
            stiffness, damping = _spring(self._base["geom_solref"][ids])
            if on.toe_stiffness is not None:
                soft = toe_secant(self._memory("load")[ids], on.toe_stiffness.ratio, on.toe_stiffness.load)
                stiffness, damping = stiffness * soft, damping * np.sqrt(soft)  # as well damped as before
            if on.hysteresis is not None:
                stiffness = stiffness * (1.0 + on.hysteresis.loss * self._memory("z")[ids])
            if on.dissipation is not None:
                own, law = on.dissipation.kept * damping, on.dissipation.damping
                damping = own + law * stiffness * self._memory("depth")[ids]
            spring = np.stack([-stiffness, -np.maximum(damping, 1e-9)], axis=-1)
            view.model_field("geom_solref")[at] = spring
            view.model_field("pair_solref")[paired] = spring[:, self._owners]
        if on.tendon_compliance is not None:
            c = on.tendon_compliance
            stretch = self._memory("length")[ids] - self._memory("before")[ids]
            self._memory("before")[ids] = self._memory("length")[ids]
            gain = np.array([t.gain for t in self._tendons])
            before = self._memory("tension")[ids] * gain
            k = c.stiffness * (1.0 + before / c.stiffening)
            tension = tendon_tension(
                before, commanded[:, self._pulls] * gain, stretch, stiffness=c.stiffness, stiffening=c.stiffening,
                reel=c.reel * steps * self._timestep,
            )  # fmt: skip
            # half of the cable lies before the bends, half behind: it slides by the finger's pull and its own stretch
            slide = bouc_wen(self._memory("slide")[ids], stretch - (tension - before) / (2.0 * k), _PRESLIDING)
            self._memory("tension")[ids], self._memory("slide")[ids] = tension / gain, slide
            # what is pulled with is the tension in the middle of these steps: without, the lag would feed oscillations
            ahead = np.maximum(tension + (0.5 + 1.0 / steps) * k * stretch, 0.0)
            out = capstan(ahead, c.friction, c.wrap + self._memory("bend")[ids], slide)
            view.ctrl[np.ix_(ids, self._pulls)] = out / gain

    def read(self, ids: np.ndarray) -> None:
        """Take in what the last steps did."""
        on = self._on
        if self._rubs or self._springs:
            force, depth, normal, tangent, slip = self._contacts(ids)
            load = force[..., 0].sum(axis=-1)
            touching = load > 1e-9
            share = force[..., 0] / np.where(touching, load, 1.0)[..., None]
        if self._rubs:
            factor = np.ones(load.shape)
            side = np.cross(normal, tangent)
            if on.anisotropy is not None:
                pull = (force[..., 1:2] * tangent + force[..., 2:] * side).sum(axis=2)
                frames = self._view.field("geom_xmat")[np.ix_(ids, self._geoms)].reshape(*load.shape, 3, 3)
                axis = frames @ np.asarray(on.anisotropy.axis)
                facing = (share[..., None] * normal).sum(axis=2)
                size = np.linalg.norm(facing, axis=-1, keepdims=True)
                facing = facing / np.where(size > 0, size, 1.0)
                factor = ellipse_radius(pull, axis, facing, on.anisotropy.ratio)
            if on.stribeck is not None:
                sliding = (share[..., None] * (slip[..., :1] * tangent + slip[..., 1:] * side)).sum(axis=2)
                speed = np.linalg.norm(sliding, axis=-1)
                s = on.stribeck
                factor = factor * stribeck(speed, s.kinetic, s.speed, s.viscous)
            # a contact that chatters comes back as it went
            self._memory("friction")[ids] = np.where(touching, factor, self._memory("friction")[ids])
        if self._springs:
            deep = (share * depth).sum(axis=-1)
            if on.hysteresis is not None:
                z = bouc_wen(self._memory("z")[ids], deep - self._memory("depth")[ids], on.hysteresis.depth)
                self._memory("z")[ids] = np.where(touching, z, 0.0)
            self._memory("load")[ids], self._memory("depth")[ids] = load, deep
        if self._tendons:
            self._memory("length")[ids], self._memory("bend")[ids] = self._routes(ids)

    def _contacts(self, ids: np.ndarray) -> tuple[np.ndarray, ...]:
        """Contact of each slot: force (normal, two tangential) [N], depth [m], normal, first tangent, sliding [m/s]."""
        raw = self._view.sensordata[np.ix_(ids, self._sensed)].reshape(len(ids), len(self._geoms), _SLOTS, _WIDTH)
        force = np.where(raw[..., :1] > 0, raw[..., 1:4], 0.0)
        force[..., 0] = np.maximum(force[..., 0], 0.0)
        depth = np.maximum(-raw[..., 4], 0.0)
        return force, depth, raw[..., 5:8], raw[..., 8:11], raw[..., 12:14]

    def _routes(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the tendons [m], and by how much the joints that they cross are bent [rad]."""
        view = self._view
        length = view.field("ten_length")[np.ix_(ids, np.array([t.tendon for t in self._tendons]))]
        bend = np.stack([np.abs(view.qpos[np.ix_(ids, t.hinges)]).sum(axis=1) for t in self._tendons], axis=1)
        return length, bend

    def _memory(self, name: str) -> Any:
        return self._view.remember(_PREFIX + name, self._shapes[name])


@dataclass(frozen=True)
class _Puller:
    """An actuator that pulls on a tendon with a force."""

    actuator: int
    tendon: int
    gain: float
    """[N] a unit of control."""
    hinges: np.ndarray
    """Columns in `qpos` of the joints that the tendon crosses."""


def _pullers(model: mujoco.MjModel) -> list[_Puller]:
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    found = []
    for k in range(model.nu):
        tendon = int(model.actuator_trnid[k, 0])
        pulls = (
            model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_TENDON
            and model.actuator_gaintype[k] == mujoco.mjtGain.mjGAIN_FIXED
            and model.actuator_biastype[k] == mujoco.mjtBias.mjBIAS_NONE
        )
        if not pulls:
            continue
        row = slice(model.ten_J_rowadr[tendon], model.ten_J_rowadr[tendon] + model.ten_J_rownnz[tendon])
        crossed = model.ten_J_colind[row][np.abs(data.ten_J.ravel()[row]) > 1e-6]
        joints = [j for j in model.dof_jntid[crossed] if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE]
        found.append(_Puller(k, tendon, abs(float(model.actuator_gainprm[k, 0])), model.jnt_qposadr[joints]))
    return found


def _spring(solref: Float[np.ndarray, "*n 2"]) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Stiffness [1/s2] and damping [1/s] of either form of MuJoCo's `solref`; see its page on solver parameters."""
    timeconst, ratio = solref[..., 0], solref[..., 1]
    direct = timeconst <= 0
    safe = np.where(direct, 1.0, timeconst)
    return (
        np.where(direct, -timeconst, 1.0 / (safe * np.where(direct, 1.0, ratio)) ** 2),
        np.where(direct, -ratio, 2.0 / safe),
    )

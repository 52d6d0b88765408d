"""A drop-in for `mj_step` that hands short impacts to a collision model and leaves all else to MuJoCo.

When a watched pair touches for the first time with an approach speed above a threshold, the generalised velocity jumps
by the model's impulse, v+ = v- + P J^T p, with P the inverse inertia under everything that holds at that moment
(`holding.py`); several pairs at once are answered together (`event.py`). Until a pair separates, its contacts are
excluded from MuJoCo's constraints, so that the impact is not answered twice; the exclusion acts on that pair alone, by
`mjContact.exclude` and a rebuild of the constraints of that step. Pushing, resting and grasping stay MuJoCo's: a touch
below the threshold is never taken, and one that closes again or lasts is handed back.

The step of an impact shows it as a mean force, impulse / timestep: in `efc_force` and so in contact forces, in
`qfrc_constraint` and `qacc`, and in all sensors that follow from these, of the contacts that held included
(`impulses.py`). `HybridConfig.sensing_time` spreads what force readings show over a longer time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import mujoco
import numpy as np
from jaxtyping import Float, Int

from dexprior.collision.hybrid.contacts import Contact, Patch, read_patch, touching
from dexprior.collision.hybrid.event import COUNTS, Answer, Event, HybridConfig, settle
from dexprior.collision.hybrid.holding import read_holding
from dexprior.collision.hybrid.impulses import bearing_impulses, row_count
from dexprior.collision.hybrid.pairs import Side, watch
from dexprior.errors import BadInput
from dexprior.types.collision import CollisionModel, ContactGeometry

__all__ = ["HybridStep", "HybridStepper", "pair_phi", "warn_untouched"]

_EXCLUDED = 1  # any non-zero mjContact.exclude keeps a contact out of the constraints
_FORCES = (
    mujoco.mjtSensor.mjSENS_TOUCH,
    mujoco.mjtSensor.mjSENS_FORCE,
    mujoco.mjtSensor.mjSENS_TORQUE,
    mujoco.mjtSensor.mjSENS_ACCELEROMETER,
    mujoco.mjtSensor.mjSENS_FRAMELINACC,
    mujoco.mjtSensor.mjSENS_FRAMEANGACC,
    mujoco.mjtSensor.mjSENS_JOINTLIMITFRC,
    mujoco.mjtSensor.mjSENS_TENDONLIMITFRC,
)
"""Sensors whose reading is a sum over forces or accelerations, so that an impact's share can be spread over time."""


class HybridStepper:
    """Steps one world; keeps which pairs are in an impact, and counts what it did.

    `counts` holds `impacts`: pairs answered by the model; `energy`, `not_finite`, `out_of_range`, `penetrating`,
    `blocked` (what holds leaves no mobility): answers that a guard gave to MuJoCo instead; `unresolved`: pairs that
    still approached after all sweeps; `handed_back`: pairs that closed again, or touched for too long.

    `answers` holds what the model said in the last step with an impact, its standard deviations included.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        pairs: Sequence[tuple[Side, Side]],
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*pair parameter"],
        config: HybridConfig | None = None,
        *,
        sample: bool = False,
        seed: int | Sequence[int] = 0,
    ) -> None:
        """Watch pairs of geoms, or of bodies.

        Args:
            model: the world.
            data: its state; the stepper writes `qvel` at an impact.
            pairs: whose impacts are the collision model's. Each side names a geom, a body (all of its geoms) or
                several; the touching points of a pair are one contact patch.
            collision_model: e.g. a `Surrogate`; reads 2 or 3 contact rows.
            phi: its parameters, (parameter,) for all pairs or (pair, parameter).
            config: thresholds.
            sample: draw the answers from the model's distribution instead of taking its mean.
            seed: of the draws, which are functions of (seed, time step, pair) alone.

        Raises:
            UnknownName: a geom or body that the world does not have.
            BadInput: pairs that overlap, phi of the wrong shape, a model of other than 2 or 3 rows, an integrator
                that cannot be split (RK4), or sleeping switched on.
        """
        if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
            raise BadInput(
                "HybridStepper: RK4 evaluates contacts four times a step and cannot be split; "
                "use Euler, implicit or implicitfast"
            )
        if model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
            raise BadInput("HybridStepper: a sleeping body cannot be struck; switch the sleep flag off")
        if collision_model.rows not in (2, 3):
            raise BadInput(f"HybridStepper: the model reads {collision_model.rows} contact rows, expected 2 or 3")
        self.model, self.data, self.collision_model = model, data, collision_model
        self.config = config or HybridConfig()
        self.phi = pair_phi(phi, len(pairs), collision_model)
        self.counts = dict.fromkeys(COUNTS, 0)
        self.answers: tuple[Answer, ...] = ()
        self.pairs = tuple(pairs)
        self.touched: set[int] = set()
        """Numbers of the pairs that have touched, in MuJoCo's hands or the model's."""
        self._watched = watch(model, pairs)
        self._sample, self._seed = sample, [seed] if isinstance(seed, int) else list(seed)
        sensing_time = self.config.sensing_time or model.opt.timestep
        self._shown_for = max(1, round(sensing_time / model.opt.timestep))
        self._readings = _force_readings(model)
        self.reset()

    def reset(self) -> None:
        """Forget which pairs touch; call it after the world's state was set from outside. Counts stay.

        A changed clock (`mj_resetData`) is noticed without it.
        """
        self._touching: set[int] = set()
        self._impact_age: dict[int, int] = {}  # pair in an impact -> steps since the model's answer
        self._members: dict[int, list[int]] = {}
        self._shown: list[tuple[int, np.ndarray]] = []  # steps to go -> what an impact adds to force readings
        self._time = self.data.time

    def step(self, nstep: int = 1) -> None:
        """Advance the world by time steps, like `mj_step`."""
        for _ in range(nstep):
            event = self.begin()
            if event is not None:
                settle([event], self.collision_model)
            self.finish(event)

    def begin(self) -> Event | None:
        """First half of a step, up to the impacts that the model must answer; None if there is none."""
        if self.data.time != self._time:
            self.reset()
        mujoco.mj_step1(self.model, self.data)
        members = touching(self.data, self._watched)
        self.touched.update(members)
        self._members = members
        self._impact_age = {k: age + 1 for k, age in self._impact_age.items() if k in members}
        fresh = members.keys() - self._touching
        if not fresh and not self._impact_age:
            return None
        patches = {k: self._patch(k) for k in members}
        self._hand_back(patches)
        if all(self._approach(patches[k]) <= self.config.min_approach for k in fresh):
            return None
        return self._event({k: patches[k] for k in members if self._may_be_asked(k, patches[k])})

    def finish(self, event: Event | None) -> None:
        """Second half of a step, from the velocity that a settled event has given."""
        model, data = self.model, self.data
        change = None
        if event is not None:
            for name, count in event.counts.items():
                self.counts[name] += count
            if event.answered:
                change = event.velocity - data.qvel
                data.qvel[:] = event.velocity
                self.answers = tuple(event.answers)
            self._impact_age = {k: age for k, age in self._impact_age.items() if k not in event.refused}
            self._impact_age |= dict.fromkeys(event.taken, 0)
        if self._impact_age:
            for row in (row for k in self._impact_age for row in self._members[k]):
                data.contact[row].exclude = _EXCLUDED
                data.contact[row].efc_address = -1  # MuJoCo would leave the row of another contact there
            # what mj_fwdPosition does after collision detection
            mujoco.mj_makeConstraint(model, data)
            mujoco.mj_island(model, data)
            mujoco.mj_projectConstraint(model, data)
        if self._impact_age or change is not None:
            mujoco.mj_fwdVelocity(model, data)
            mujoco.mj_sensorVel(model, data)
            if model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_ENERGY:
                mujoco.mj_energyVel(model, data)
        if event is None or change is None:
            mujoco.mj_step2(model, data)
        else:
            self._step2(event, change)
        if self._shown:
            self._show()
        self._touching = set(self._members)
        self._time = data.time

    def _step2(self, event: Event, change: Float[np.ndarray, " dof"]) -> None:
        """`mj_step2`, whose forces and accelerations become the means over a step that begins with a jump."""
        model, data = self.model, self.data
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_fwdConstraint(model, data)
        own = data.qacc.copy()
        without = self._sensed() if self._shown_for > 1 else None
        self._bear(event, change)
        data.qacc[:] = mean = own + change / model.opt.timestep
        sensed = self._sensed()
        if without is not None:
            self._shown.append((self._shown_for, (sensed - without) / self._shown_for))
            data.sensordata[self._readings] = without
        data.qacc[:] = own
        mujoco.mj_checkAcc(model, data)
        if model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER:
            mujoco.mj_Euler(model, data)
        else:
            mujoco.mj_implicit(model, data)
        data.qacc[:] = mean
        data.qfrc_constraint[:] += self._momentum(change) / model.opt.timestep

    def _bear(self, event: Event, change: Float[np.ndarray, " dof"]) -> None:
        """Put the answered contacts back among the constraints, and the impulses on the forces of this step."""
        model, data = self.model, self.data
        own = data.efc_force.copy()
        struck = {row for k in event.answered for row in self._members[k]}
        taken = [data.contact[row] for k in sorted(event.taken) for row in self._members[k]]
        for point in taken:
            point.exclude, point.dim = 0, max(int(point.dim), 3)  # the model rubs where MuJoCo does not
        mujoco.mj_makeConstraint(model, data)
        solved = np.ones(data.nefc, dtype=bool)
        for point in taken:
            solved[point.efc_address : point.efc_address + row_count(model, int(point.dim))] = False
        impulse = bearing_impulses(model, data, change, struck=struck, closing=self.config.closing)
        force = impulse / model.opt.timestep
        force[solved] += own
        data.efc_force[:] = force

    def _sensed(self) -> Float[np.ndarray, " reading"]:
        """Force readings from the forces and accelerations that data hold now."""
        self.data.flg_rnepost = 0  # else MuJoCo keeps those of before
        mujoco.mj_sensorAcc(self.model, self.data)
        return self.data.sensordata[self._readings]

    def _show(self) -> None:
        """Add to the readings what impacts of late are spread over."""
        for _, share in self._shown:
            self.data.sensordata[self._readings] += share
        self._shown = [(left - 1, share) for left, share in self._shown if left > 1]

    def contact(self, pair: int) -> Contact | None:
        """How the present touch of one pair couples to the generalised velocity; None if it does not touch.

        Needs the position stage (`mj_step1` or `mj_forward`). What would hold under a normal impulse is held.
        """
        self._members = touching(self.data, self._watched)
        if pair not in self._members:
            return None
        holding = read_holding(
            self.model, self.data, self.data.qvel, without=self._members[pair], closing=self.config.closing
        )
        frame = self._patch(pair).frame(self.data.qvel, rows=self.collision_model.rows, inverse=holding.inverse)
        inverse = holding.projected(holding.pressed(frame.jacobian[0]) > 0)
        return Contact(ContactGeometry(jacobian=frame.jacobian[None], inverse_inertia=inverse[None]), frame.velocity)

    def _patch(self, pair: int) -> Patch:
        return read_patch(self.model, self.data, self._watched, pair, self._members[pair])

    def _approach(self, patch: Patch) -> float:
        return -float(patch.frame(self.data.qvel, rows=2).velocity[0])

    def _may_be_asked(self, pair: int, patch: Patch) -> bool:
        if pair not in self._touching or pair in self._impact_age:
            return True
        # an old touch that approaches is an impact in MuJoCo's hands
        return self.config.resting == "strikes" and self._approach(patch) <= self.config.min_approach

    def _event(self, patches: dict[int, Patch]) -> Event:
        data = self.data
        step = round(data.time / self.model.opt.timestep)
        return Event(
            velocity=data.qvel,
            time=data.time,
            patches=patches,
            holding=read_holding(
                self.model,
                data,
                data.qvel,
                without=[row for k in patches for row in self._members[k]],
                closing=self.config.closing,
            ),
            momentum=self._momentum,
            phi=self.phi,
            rows=self.collision_model.rows,
            config=self.config,
            noise=(lambda pair, sweep: np.random.default_rng([*self._seed, step, pair, sweep]))
            if self._sample
            else None,
        )

    def _momentum(self, velocity: Float[np.ndarray, " dof"]) -> Float[np.ndarray, " dof"]:
        momentum = np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, self.data, momentum, velocity)
        return momentum

    def _hand_back(self, patches: dict[int, Patch]) -> None:
        """Give a pair back to MuJoCo if it closes again or has touched for too long after its impact."""
        for k, age in list(self._impact_age.items()):
            if self._approach(patches[k]) > self.config.closing or age > self.config.max_steps:
                del self._impact_age[k]
                self.counts["handed_back"] += 1


class HybridStep:
    """A callable in place of `mujoco.mj_step`: `hybrid_step(model, data, nstep=1)`.

    It follows the caller from one (model, data) to the next, forgetting what touched in the former; counts go on.

    Args:
        pairs, collision_model, phi, config, sample, seed: as for `HybridStepper`.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Side, Side]],
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*pair parameter"],
        config: HybridConfig | None = None,
        *,
        sample: bool = False,
        seed: int | Sequence[int] = 0,
    ) -> None:
        self.pairs, self.collision_model, self.phi, self.config = tuple(pairs), collision_model, phi, config
        self.stepper: HybridStepper | None = None
        self.touched: set[int] = set()
        """As `HybridStepper.touched`, over all worlds so far."""
        self._sample, self._seed = sample, seed
        self._before = dict.fromkeys(COUNTS, 0)

    def __call__(self, model: mujoco.MjModel, data: mujoco.MjData, nstep: int = 1) -> None:
        """Advance `data` by `nstep` time steps."""
        self.bind(model, data).step(nstep)

    def bind(self, model: mujoco.MjModel, data: mujoco.MjData) -> HybridStepper:
        """The stepper of a world; a new one where it is another world than the last.

        Raises:
            UnknownName, BadInput: as `HybridStepper`.
        """
        if self.stepper is None or self.stepper.data is not data or self.stepper.model is not model:
            before = self.counts
            self.stepper = HybridStepper(
                model,
                data,
                self.pairs,
                self.collision_model,
                self.phi,
                self.config,
                sample=self._sample,
                seed=self._seed,
            )
            self._before = before
            self.stepper.touched = self.touched
        return self.stepper

    @property
    def counts(self) -> dict[str, int]:
        """As `HybridStepper.counts`, over all worlds so far."""
        now = {} if self.stepper is None else self.stepper.counts
        return {name: value + now.get(name, 0) for name, value in self._before.items()}


def warn_untouched(pairs: Sequence[tuple[Side, Side]], touched: set[int]) -> None:
    """Warn of pairs that never touched: their collision model was never asked, and nothing was learned about it."""
    for pair in (pair for k, pair in enumerate(pairs) if k not in touched):
        warnings.warn(
            f"the pair {pair!r} never touched, so that the collision model never answered it: are these the geoms or "
            "bodies that strike each other?",
            stacklevel=3,
        )


def pair_phi(
    phi: Float[np.ndarray, "*pair parameter"], pairs: int, collision_model: CollisionModel
) -> Float[np.ndarray, "pair parameter"]:
    """Contact parameters, one row a pair.

    Raises:
        BadInput: neither (parameter,) nor (pair, parameter).
    """
    columns = len(collision_model.parameters)
    rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != columns or len(rows) not in (1, pairs):
        raise BadInput(
            f"HybridStepper: phi has shape {np.shape(phi)}, expected ({columns},) or "
            f"({pairs}, {columns}) for {', '.join(collision_model.parameters)}"
        )
    return np.broadcast_to(rows, (pairs, columns))


def _force_readings(model: mujoco.MjModel) -> Int[np.ndarray, " reading"]:
    """Columns of `sensordata` that an impact's share may be spread in; sensors with a delay of their own keep it."""
    kept = np.isin(model.sensor_type, _FORCES) & (model.sensor_history[:, 0] == 0)
    columns = [np.arange(adr, adr + dim) for adr, dim in zip(model.sensor_adr[kept], model.sensor_dim[kept])]
    return np.concatenate([np.zeros(0, dtype=int), *columns])

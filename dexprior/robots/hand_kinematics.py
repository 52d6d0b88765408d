"""Positions of a robot hand's points and their Jacobians, for many frames at once (NumPy, no physics).

MuJoCo moves one frame at a time; fitting a whole clip wants all of its frames in one array. The tables come
from the compiled model, so they agree with `mj_kinematics`, which the tests check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.catalog import fingers_of
from dexprior.robots.machines import EndEffector

if TYPE_CHECKING:
    import mujoco

__all__ = ["HandKinematics"]


@dataclass(frozen=True)
class _Link:
    """What one joint moves, or a body that is fixed to its parent. A body with several joints is a chain of links."""

    parent: int
    """Index of an earlier link; -1 for the wrist's body."""
    position: np.ndarray
    """Origin in the parent's frame [m]."""
    rotation: np.ndarray
    """Axes in the parent's frame, before the joint moves."""
    column: int = -1
    """Column of q; -1 where nothing moves it."""
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """A point of the joint's axis in the link's frame [m]."""
    slides: bool = False
    reference: float = 0.0
    """Value of q at which the link is as `position` and `rotation` say [rad, m]."""


@dataclass(frozen=True)
class HandKinematics:
    """Forward kinematics of a robot hand in the frame of its wrist, as MANO has it."""

    joints: tuple[str, ...]
    """Columns of q, the catalog's order."""
    lower: Float[np.ndarray, " joint"]
    upper: Float[np.ndarray, " joint"]
    fixed: tuple[int, ...]
    """Columns of joints that move no finger in this frame, as those of a wrist between hand and forearm."""
    tip_radii: Float[np.ndarray, " finger"]
    """How thick each fingertip is [m]: two tips touch when their sites are the sum of their radii apart."""
    tips: tuple[int, ...]
    """Rows of the fingertips among the points, in the order of `Fingers.names`; distal joints follow."""
    bases: Float[np.ndarray, "finger 3"]
    """Each finger's knuckle at q = 0: the third joint from its tip [m]."""
    _tree: _Tree

    @classmethod
    def of(cls, hand: EndEffector) -> HandKinematics:
        """Read the tables of a hand's model.

        Raises:
            BadInput: it has no fingers that follow a human hand's, or a fingertip is not below the body of the wrist.
            MissingExtra: the package that holds it is not installed.
        """
        fingers, model = fingers_of(hand), hand.model
        names, radius = fingers.names, fingers.tip_radius
        wrist = model.site(fingers.wrist)
        sites = [model.site(fingers.tips[finger]) for finger in names]
        root = int(model.site_bodyid[wrist.id])
        R_root_wrist = matrix_from_quat(wrist.quat)
        start = R_root_wrist.T, -R_root_wrist.T @ wrist.pos  # T_wrist_root
        tip_bodies = [int(model.site_bodyid[site.id]) for site in sites]
        distal_bodies = [_last_moved(model, body) for body in tip_bodies]
        order: list[int] = []
        for body, finger in zip([*tip_bodies, *distal_bodies], [*names] * 2):
            chain = []
            while body != root:
                if body == 0:
                    raise BadInput(
                        f"{hand.name}: the {finger}'s tip is not below {model.body(root).name!r}, the body "
                        f"of the site {fingers.wrist!r}"
                    )
                chain.append(body)
                body = int(model.body_parentid[body])
            order += [b for b in reversed(chain) if b not in order]
        links: list[_Link] = []
        last: dict[int, int] = {}  # body -> its last link
        for body in order:
            links += _links(model, hand, body, last.get(int(model.body_parentid[body]), -1), len(links))
            last[body] = len(links) - 1
        points = [(last[b], np.array(site.pos)) for site, b in zip(sites, tip_bodies)]
        points += [(last[b], np.zeros(3)) for b in distal_bodies]
        limits = np.array([model.joint(j).range for j in hand.joints])
        tree = _Tree.of(links, points, start, len(hand.joints))
        rest = tree.place(np.zeros((1, len(hand.joints))))[0, :, :3, 3]
        return cls(
            joints=hand.joints, lower=limits[:, 0], upper=limits[:, 1],
            fixed=tuple(sorted(set(range(len(hand.joints))) - {link.column for link in links})),
            tip_radii=np.array([_radius(model, site.id) if radius is None else radius for site in sites]),
            tips=tuple(range(len(names))),
            bases=_knuckles(model, distal_bodies, root, {body: rest[link] for body, link in last.items()}),
            _tree=tree,
        )  # fmt: skip

    def forward(
        self, q: Float[np.ndarray, "time joint"]
    ) -> tuple[Float[np.ndarray, "time point 3"], Float[np.ndarray, "time point 3 joint"]]:
        """Points (fingertips, then distal joints) in the wrist frame [m], and their derivatives."""
        return self._tree.forward(q)


@dataclass(frozen=True)
class _Tree:
    """Places of links and points. A link's T_parent_link is `still + sin(q) sine + cos(q) cosine + q slide`."""

    levels: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Links at each depth and their parents; the last row of an array of places is the wrist's body."""
    start: Float[np.ndarray, "4 4"]
    """T_wrist_body."""
    columns: np.ndarray
    """Column of q of each link (0 where nothing moves it: there its terms are zero)."""
    reference: Float[np.ndarray, " link"]
    still: Float[np.ndarray, "link 4 4"]
    sine: Float[np.ndarray, "link 4 4"]
    cosine: Float[np.ndarray, "link 4 4"]
    slide: Float[np.ndarray, "link 4 4"]
    carriers: np.ndarray
    """Link that carries each point."""
    offsets: Float[np.ndarray, "point 4 1"]
    """Where it is on that link [m], with a one."""
    moving: np.ndarray
    """Links that a joint moves."""
    lines: Float[np.ndarray, "moving 4 2"]
    """Axis of each, with a zero, and a point of it, with a one."""
    turning: Float[np.ndarray, "point moving 1"]
    """1 where a hinge moves a point; `sliding` likewise."""
    sliding: Float[np.ndarray, "point moving 1"]
    spread: Float[np.ndarray, "moving joint"]
    """1 where a link is moved by a joint."""

    @classmethod
    def of(
        cls,
        links: list[_Link],
        points: list[tuple[int, np.ndarray]],
        start: tuple[np.ndarray, np.ndarray],
        joints: int,
    ) -> _Tree:
        depth: list[int] = []
        for link in links:
            depth.append(0 if link.parent < 0 else depth[link.parent] + 1)
        at = [np.flatnonzero(np.array(depth) == d) for d in range(max(depth) + 1)]
        above = []
        for k, _ in points:
            chain = set()
            while k >= 0:
                chain.add(k)
                k = links[k].parent
            above.append(chain)
        moving = [k for k, link in enumerate(links) if link.column >= 0]
        moves = np.array([[k in chain for k in moving] for chain in above], dtype=np.float64)[..., None]
        slides = np.array([links[k].slides for k in moving], dtype=np.float64)[:, None]
        still, sine, cosine, slide = (np.array(terms) for terms in zip(*map(_terms, links)))
        return cls(
            levels=tuple((level, np.array([links[k].parent for k in level])) for level in at),
            start=_transform(*start),
            columns=np.array([max(link.column, 0) for link in links]),
            reference=np.array([link.reference for link in links]),
            still=still,
            sine=sine,
            cosine=cosine,
            slide=slide,
            carriers=np.array([carrier for carrier, _ in points]),
            offsets=np.array([[*offset, 1.0] for _, offset in points])[:, :, None],
            moving=np.array(moving),
            lines=np.array([[[*links[k].axis, 0.0], [*links[k].anchor, 1.0]] for k in moving]).swapaxes(1, 2),
            turning=moves * (1 - slides),
            sliding=moves * slides,
            spread=np.eye(joints)[[links[k].column for k in moving]],
        )

    def place(self, q: Float[np.ndarray, "time joint"]) -> Float[np.ndarray, "time place 4 4"]:
        """T_wrist_link of all links; the wrist's body comes last."""
        value = (q[:, self.columns] - self.reference)[..., None, None]
        local = self.still + np.sin(value) * self.sine + np.cos(value) * self.cosine + value * self.slide
        T = np.empty((len(q), len(self.columns) + 1, 4, 4))
        T[:, -1] = self.start
        for links, parents in self.levels:
            T[:, links] = T[:, parents] @ local[:, links]
        return T

    def forward(self, q: Float[np.ndarray, "time joint"]) -> tuple[np.ndarray, np.ndarray]:
        """As `HandKinematics.forward`."""
        T = self.place(q)
        points = (T[:, self.carriers] @ self.offsets)[..., :3, 0]
        lines = T[:, self.moving] @ self.lines
        axes, pivots = lines[:, None, :, :3, 0], lines[:, None, :, :3, 1]
        away = points[:, :, None] - pivots
        x, y, z = axes[..., 0], axes[..., 1], axes[..., 2]
        a, b, c = away[..., 0], away[..., 1], away[..., 2]
        arms = np.empty(away.shape)
        arms[..., 0], arms[..., 1], arms[..., 2] = y * c - z * b, z * a - x * c, x * b - y * a
        arms *= self.turning
        arms += axes * self.sliding
        return points, np.swapaxes(arms, 2, 3) @ self.spread


def _transform(R: np.ndarray, p: np.ndarray) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, p
    return T


def _terms(link: _Link) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What a link's T_parent_link is made of (Rodrigues about an axis through `anchor`)."""
    placed, nothing = _transform(link.rotation, link.position), np.zeros((4, 4))
    if link.column < 0:
        return placed, nothing, nothing, nothing
    if link.slides:
        along = np.zeros((4, 4))
        along[:3, 3] = link.axis
        return placed, nothing, nothing, placed @ along
    x, y, z = link.axis
    cross = np.zeros((4, 4))
    cross[:3, :3] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    to, back = _transform(np.eye(3), link.anchor), _transform(np.eye(3), -link.anchor)
    square = placed @ to @ (cross @ cross) @ back
    return placed + square, placed @ to @ cross @ back, -square, nothing


def _last_moved(model: mujoco.MjModel, body: int) -> int:
    """The body of a fingertip, or the one above it that a joint moves; its origin is the finger's last joint."""
    while body and not model.body_jntnum[body]:
        body = int(model.body_parentid[body])
    return body


def _radius(model: mujoco.MjModel, site: int) -> float:
    """How thick the solid geom at a fingertip is [m].

    Of a round one that is its radius; of a mesh the mean, over all directions away from the finger's last joint, of how
    far it reaches from the site; of others half of the shortest side.
    """
    import mujoco

    body, at = int(model.site_bodyid[site]), model.site_pos[site]
    solid = [g for g in np.flatnonzero(model.geom_bodyid == body) if model.geom_contype[g] or model.geom_conaffinity[g]]
    if not solid:
        raise BadInput(f"nothing solid is at the fingertip {model.site(site).name!r}: say how thick it is")
    nearest = min(solid, key=lambda geom: float(np.linalg.norm(model.geom_pos[geom] - at)))
    round_ones = (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE)
    if model.geom_type[nearest] in round_ones:
        return float(model.geom_size[nearest, 0])
    if model.geom_type[nearest] != mujoco.mjtGeom.mjGEOM_MESH:
        return float(model.geom_aabb[nearest, 3:].min())
    mesh = model.geom_dataid[nearest]
    first = model.mesh_vertadr[mesh]
    vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    places = vertices @ matrix_from_quat(model.geom_quat[nearest]).T + model.geom_pos[nearest] - at
    k = np.arange(200) + 0.5  # directions spread evenly over a sphere (Fibonacci's lattice)
    z, turn = 1 - k / 100, np.pi * (1 + 5**0.5) * k
    directions = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    return float((places @ directions[directions @ at > 0].T).max(axis=0).mean())


def _knuckles(
    model: mujoco.MjModel, distal_bodies: list[int], root: int, places: dict[int, np.ndarray]
) -> Float[np.ndarray, "finger 3"]:
    """Third distinct joint centre from each fingertip upwards, of bodies at these places [m]."""
    found = []
    for body in distal_bodies:
        centres = [places[body]]
        while len(centres) < 3 and int(model.body_parentid[body]) != root:
            body = int(model.body_parentid[body])
            if np.linalg.norm(places[body] - centres[-1]) > 1e-3:  # two bodies may share one joint centre
                centres.append(places[body])
        found.append(centres[-1])
    return np.array(found)


def _links(model: mujoco.MjModel, hand: EndEffector, body: int, parent: int, first: int) -> list[_Link]:
    """Links of a body, whose indices begin at `first`."""
    import mujoco

    position, rotation = model.body_pos[body].copy(), matrix_from_quat(model.body_quat[body])
    links: list[_Link] = []
    for index in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
        kind = int(model.jnt_type[index])
        name = model.joint(index).name
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE) or name not in hand.joints:
            raise BadInput(f"{hand.name}: joint {name!r} is not a hinge or slide of the catalog's entry")
        links.append(
            _Link(
                parent=first + len(links) - 1 if links else parent,
                position=np.zeros(3) if links else position,
                rotation=np.eye(3) if links else rotation,
                column=hand.joints.index(name),
                axis=model.jnt_axis[index].copy(),
                anchor=model.jnt_pos[index].copy(),
                slides=kind == mujoco.mjtJoint.mjJNT_SLIDE,
                reference=float(model.qpos0[model.jnt_qposadr[index]]),
            )
        )
    return links or [_Link(parent=parent, position=position, rotation=rotation)]

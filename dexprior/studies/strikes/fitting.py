"""Every simulator of strikes fitted to the same few recordings, scored on others, and planned with.

    mujoco_default   the world's own contact parameters
    mujoco_tuned     MuJoCo with the contact found by CMA-ES on the recordings, its impedance included
    real_only        a network that saw the recordings and nothing else, and the planar rollout
    clash            the published reference as published, where a pre-trained one is given, and the planar rollout
    clash_tuned      the same on the distilled network's simulator, trained for longer
    closed_form      restitution and friction, and the planar rollout
    identified       the distilled network at its identified parameters, and the planar rollout
    hybrid           the same, fine-tuned on the recordings
    hybrid_mujoco    the fine-tuned network at the impact, MuJoCo's own sliding after it

All but the first slide as the recorded slides did: on their friction, standing as far from the centre as they tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.collision.calibration import Identified, IdentifyConfig
from dexprior.collision.clash import ClashModel
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.planar import (
    FrictionEstimate,
    PlanarStriker,
    identify_ground_friction,
    identify_support_share,
    identify_torsional_friction,
)
from dexprior.collision.planar.reference import ReferenceStriker, fit_reference
from dexprior.collision.planar.strikes import (
    StrikeImpacts,
    TuneStrikesConfig,
    departure_velocity,
    fit_restitution,
    fit_scratch,
    fit_surrogate,
    strike_error,
    tune_mujoco_strikes,
)
from dexprior.collision.residual import ResidualConfig
from dexprior.collision.surrogate import Surrogate
from dexprior.envs.pushing import Striker
from dexprior.envs.reality.pushing import Recordings
from dexprior.errors import BadInput, UnknownName
from dexprior.policy.planning import MujocoStriker, PlanConfig, StrikeSimulator, plan_strikes, pose_error
from dexprior.stats import bootstrap_mean
from dexprior.worlds.pushing import PushingConfig, Strikes, simulate_sliding, simulate_strikes

__all__ = [
    "FittedStrikers",
    "SlidingInMujoco",
    "execute_plans",
    "fit_strikers",
    "recorded_velocity",
    "strike_errors",
]


_ANY_FRICTION = 1e-3  # while the true one is sought: a world checks that its own does not tip it over


@dataclass(frozen=True, kw_only=True)
class SlidingInMujoco:
    """The impact of a planar striker, followed by MuJoCo's own sliding; a `StrikeSimulator`."""

    impact: PlanarStriker
    """An impact with friction and contact time of its own."""
    threads: int = 1

    def __call__(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Poses [x y yaw] at which the struck objects come to rest."""
        s, n = self.impact, len(strikes)
        velocity = s.velocity_after(pose, strikes)
        given = {"table_friction": s.table_friction, "torsional_friction": s.torsional_friction}
        parameters = {name: np.full(n, value) for name, value in given.items() if value is not None}
        start = np.asarray(pose) + (s.contact_time or 0.0) / 2 * velocity
        return simulate_sliding(s.config, start, velocity, parameters=parameters, threads=self.threads)[0]


@dataclass(frozen=True, kw_only=True)
class FittedStrikers:
    """What a few recordings made of every method."""

    world: PushingConfig
    """As it was given."""
    standing: PushingConfig
    """The same with the table's friction and the supports that the recorded slides tell."""
    strikers: Mapping[str, StrikeSimulator]
    """Simulators by name; see the module."""
    friction: FrictionEstimate
    """Friction of the table."""
    support: FrictionEstimate
    """`support_share` of the object."""
    torsion: FrictionEstimate
    """[m]"""
    contact_time: float
    """Mean of the recordings [s]."""
    identified: Identified
    """Contact parameters of the distilled network."""
    surrogate: Surrogate
    """The fine-tuned network, to be saved."""
    tuned: Mapping[str, float]
    """MuJoCo's parameters."""


def recorded_velocity(world: PushingConfig, recordings: Recordings) -> Float[np.ndarray, "strike 3"]:
    """[vx vy omega] at separation from slides on the world's table; NaN where a strike hardly moved the object."""
    tails, t = recordings.tails()
    last = len(recordings.t) - 1
    first = np.minimum(np.searchsorted(recordings.t, recordings.touch[:, 1], side="right"), last)
    since = recordings.t[first] - recordings.touch[:, 1]
    return departure_velocity(
        world,
        tails,
        t,
        since,
        friction=world.table_friction,
        torsional_friction=world.torsional_friction,
    )


def fit_strikers(
    world: PushingConfig,
    base: Surrogate,
    recordings: Recordings,
    *,
    seed: int,
    tuning: TuneStrikesConfig | None = None,
    identification: IdentifyConfig | None = None,
    residual: ResidualConfig | None = None,
    references: Mapping[str, ClashModel] | None = None,
    threads: int = 1,
) -> FittedStrikers:
    """Fit every method to the same recordings; a function of its arguments alone.

    Args:
        world: geometry of what was struck; its contact parameters are `mujoco_default`.
        base: distilled from MuJoCo.
        recordings: of about ten strikes.
        seed: of the searches and of the network without pre-training.
        tuning: of MuJoCo's contact.
        identification, residual: of the distilled network; None takes the defaults.
        references: the published network by method, pre-trained on this shape; without one there is no such method.
        threads: of MuJoCo's pool.

    Raises:
        BadInput: fewer than three strikes, or none that slides.
    """
    tails, t = recordings.tails()
    support = identify_support_share(world, tails, t, friction=identify_ground_friction(world, tails, t).value)
    standing = replace(world, support_share=support.value, table_friction=_ANY_FRICTION)
    friction = identify_ground_friction(standing, tails, t)
    torsion = identify_torsional_friction(standing, tails, t, friction=friction.value)
    table = {
        "table_friction": friction.value,
        "torsional_friction": torsion.value if torsion.identifiable else 0.0,
    }
    standing = replace(standing, table_friction=table["table_friction"], torsional_friction=table["torsional_friction"])
    velocity = recorded_velocity(standing, recordings)
    told = np.flatnonzero(np.isfinite(velocity).all(axis=1))
    impacts = StrikeImpacts(
        config=standing,
        pose=recordings.pose[told],
        strikes=recordings.take(told).strikes,
        velocity=velocity[told],
    )
    touch = float((recordings.touch[:, 1] - recordings.touch[:, 0]).mean())
    surrogate, identified = fit_surrogate(base, impacts, identification=identification, residual=residual)
    tuned = tune_mujoco_strikes(impacts, tuning, known=table, seed=seed, threads=threads)

    def planar(model: Any, phi: np.ndarray) -> PlanarStriker:
        return PlanarStriker(config=standing, model=model, phi=phi, contact_time=touch)

    hybrid = planar(surrogate, identified.phi)
    published = {
        name: ReferenceStriker(config=standing, model=fit_reference(reference, impacts), contact_time=touch)
        for name, reference in (references or {}).items()
    }
    return FittedStrikers(
        world=world,
        standing=standing,
        strikers={
            "mujoco_default": MujocoStriker(config=world, threads=threads),
            "mujoco_tuned": MujocoStriker(config=standing, parameters=tuned, threads=threads),
            "real_only": planar(fit_scratch(impacts, seed=seed), np.zeros(0)),
            "closed_form": planar(RestitutionFriction(), fit_restitution(impacts)),
            "identified": planar(base, identified.phi),
            "hybrid": hybrid,
            "hybrid_mujoco": SlidingInMujoco(impact=hybrid, threads=threads),
            **published,
        },
        friction=friction,
        support=support,
        torsion=torsion,
        contact_time=touch,
        identified=identified,
        surrogate=surrogate,
        tuned=tuned,
    )


def strike_errors(
    fitted: FittedStrikers, recordings: Recordings, *, names: Sequence[str] | None = None
) -> dict[str, dict[str, Float[np.ndarray, " strike"]]]:
    """Errors of each method on recorded strikes: `velocity` (relative), `position` [m] and `orientation` [rad].

    Args:
        fitted: methods.
        recordings: strikes that they were not fitted to.
        names: of the methods; by default all that answer with a velocity of their own.

    Raises:
        BadInput: recordings of a table that does not tell the velocity at separation.
        UnknownName: a method that was not fitted.
    """
    if recordings.velocity is None:
        raise BadInput("strike_errors: the recordings hold no true velocities; start the table with truth=True")
    truth = StrikeImpacts(
        config=fitted.world, pose=recordings.pose, strikes=recordings.strikes, velocity=recordings.velocity
    )
    found = {}
    for name in names or [name for name in fitted.strikers if name != "hybrid_mujoco"]:
        striker = _striker(fitted, name)
        position, angle = pose_error(striker(recordings.pose, recordings.strikes), recordings.final_pose)
        found[name] = {
            "velocity": strike_error(_departure(striker, truth), truth),
            "position": position,
            "orientation": angle,
        }
    return found


def execute_plans(
    fitted: FittedStrikers,
    real: Striker,
    targets: Float[np.ndarray, "target 3"],
    *,
    repeats: int = 5,
    names: Sequence[str] | None = None,
    plan: PlanConfig | None = None,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Plan strikes from the origin to targets with each method, and carry them out on the real table.

    Args:
        fitted: methods.
        real: where the planned strikes are carried out.
        targets: [x y yaw].
        repeats: searches per target, with random numbers of their own.
        names: of the methods; by default all.
        plan: method and budget, the same for all.
        seed: of the searches.

    Returns:
        By method: `position` [m] and `orientation` [rad] with bootstrap intervals, all errors, and `seconds` per plan
        when all are searched at once.
    """
    goal = np.tile(np.asarray(targets, dtype=np.float64), (repeats, 1))
    start, rows = np.zeros_like(goal), {}
    for name in names or list(fitted.strikers):
        found = plan_strikes(fitted.world, _striker(fitted, name), start, goal, plan=plan, seed=seed)
        position, angle = pose_error(real(start, found.strikes), goal)
        rows[name] = {
            "position": bootstrap_mean(position),
            "orientation": bootstrap_mean(angle),
            "positions": position.tolist(),
            "orientations": angle.tolist(),
            "seconds": found.seconds / len(goal),
            "evaluations": found.evaluations,
        }
    return rows


def _striker(fitted: FittedStrikers, name: str) -> StrikeSimulator:
    if name not in fitted.strikers:
        raise UnknownName("method", name, fitted.strikers)
    return fitted.strikers[name]


def _departure(striker: Any, impacts: StrikeImpacts) -> Float[np.ndarray, "strike 3"]:
    if not isinstance(striker, MujocoStriker):
        return striker.velocity_after(impacts.pose, impacts.strikes)
    n = len(impacts)
    parameters = {name: np.full(n, value) for name, value in striker.parameters.items()}
    return simulate_strikes(
        impacts.config, impacts.pose, impacts.strikes, parameters=parameters, slide=False, threads=striker.threads
    ).velocity

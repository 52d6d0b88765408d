"""Answer a round without identifying anything: a monitor, a retreat, and a second gait for what the alarm may mean.

What is blamed is widened to the side on which the simulator, too, raises the alarm; there the second gait is trained,
from the states in which the first one leaves the cube. No trace of the other world is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.families import ParameterFamily
from dexprior.robots.claw import PALM_TOP, claw_action, claw_joints
from dexprior.studies.mini_lab.gait import GAIT
from dexprior.studies.mini_lab.rounds import LabRound
from dexprior.studies.mini_lab.trials import Outcomes, episodes, gait_policy, repeated, train_gait
from dexprior.studies.mini_lab.worlds import TRAINED
from dexprior.transfer.conditioning import Side
from dexprior.transfer.recovery import ProgressMonitor, Recovering
from dexprior.transfer.updating import added_by, blamed_parameters
from dexprior.worlds.tasks import Player, TaskWorlds

__all__ = ["Recovery", "learn_recovery"]

_SIDES: tuple[Side, ...] = ("lower", "upper")
_ROLLOUTS = 200  # of the simulator, from which the monitor is learned
_TRIED = 24  # instances on which a side is tried
_OPEN = (0.05, 0.024)  # [m] radius and height over the palm to which fingertips retreat


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A monitor and a second gait."""

    monitor: ProgressMonitor
    side: tuple[str, Side] | None
    """Parameter and side that the second gait was trained for; None: on no side is the alarm raised."""
    alarms: dict[str, float]
    """Share of episodes with an alarm, at the widened end of every blamed parameter and side."""
    shares: Float[np.ndarray, " 7"]
    """Shares of the second gait; those of the first where there is no side."""
    actions: tuple[str, ...]

    def policy(self, before: LabRound) -> Recovering:
        """Both gaits and the retreat."""
        return _around(before, self.monitor, gait_policy(self.shares, before.probe.task.control_dt))

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "threshold": self.monitor.threshold, "alarms": self.alarms, "side": None if self.side is None else
            list(self.side), "retry": dict(zip(GAIT, self.shares.tolist())),
        }  # fmt: skip


def learn_recovery(before: LabRound) -> Recovery:
    """Monitor from the simulator's rollouts, side from its alarms, second gait by CMA-ES behind monitor and retreat.

    Args:
        before: the round that it answers.
    """
    config, task, family = before.config, before.probe.task, before.family
    settings = config.recovery
    monitor = ProgressMonitor.learn(_rollouts(before, _sampled(before)).remains, settings)
    blamed = blamed_parameters(family, before.causes, config.update)
    added = {
        (name, side): added_by(family.parameters[family.names.index(name)], side, settings.widenings)
        for name in blamed for side in _SIDES
    }  # fmt: skip
    ends = {key: p.low if key[1] == "lower" else p.high for key, p in added.items()}
    rows = _rows(family, ends)
    tried = _rollouts(before, np.repeat(rows, _TRIED, axis=0), same=len(rows))
    alarmed = monitor.alarmed(tried.remains).reshape(len(rows), -1).mean(axis=1)
    alarms = dict(zip(ends, alarmed.tolist()))
    key = max(alarms, key=lambda k: alarms[k])
    told = {f"{name} {side}": rate for (name, side), rate in alarms.items()}
    watched = "the gait lets go once more of the way remains than in the simulator's own rollouts"
    if alarms[key] <= 2 * settings.alpha:
        return Recovery(
            monitor=monitor, side=None, alarms=told, shares=before.shares,
            actions=(watched, f"no side of {', '.join(blamed)} raises the alarm: the same gait tries again"),
        )  # fmt: skip
    name, part = key[0], added[key]
    levels = np.tile(family.medians(), (len(TRAINED), 1))
    levels[:, family.names.index(name)] = part.ppf(np.array(TRAINED))
    shares, _ = train_gait(
        task, family, levels, start=before.shares, settings=config.training, seconds=config.seconds,
        seed=before.seed + 1000 * (before.number + 1), within=partial(_around, before, monitor),
    )  # fmt: skip
    return Recovery(
        monitor=monitor, side=key, alarms=told, shares=shares,
        actions=(
            watched,
            f"trained a second gait for {name} from {part.low:.3g} to {part.high:.3g} {part.unit}, where the alarm is "
            f"raised in up to {alarms[key]:.0%} of episodes; it acts after a retreat",
        ),
    )  # fmt: skip


def _around(before: LabRound, monitor: ProgressMonitor, retry: Player) -> Recovering:
    dt, settings = before.probe.task.control_dt, before.config.recovery
    around = np.arange(4) * np.pi / 2
    radius, height = _OPEN
    tips = np.stack([radius * np.cos(around), radius * np.sin(around), np.full(4, PALM_TOP + height)], axis=-1)
    return Recovering(
        gait_policy(before.shares, dt), monitor, _remains, claw_action(claw_joints(tips[None]))[0], dt, retry, settings
    )


def _remains(truth: Any) -> Float[np.ndarray, " n"]:
    return np.abs(truth["error"])


def _rows(family: ParameterFamily, ends: dict[tuple[str, Side], float]) -> Float[np.ndarray, "end parameter"]:
    """The family's middle, with one parameter at an end each."""
    rows = np.tile(family.medians(), (len(ends), 1))
    for row, ((name, _), value) in zip(rows, ends.items()):
        row[family.names.index(name)] = value
    return rows


def _sampled(before: LabRound) -> Float[np.ndarray, "n parameter"]:
    return before.family.sample(np.random.default_rng([before.seed, 3]), _ROLLOUTS)


def _rollouts(before: LabRound, values: Float[np.ndarray, "n parameter"], *, same: int = 1) -> Outcomes:
    """The first gait on instances of no panel; the same ones for so many blocks of values."""
    task, n = before.probe.task, len(values)
    scenes = task.sample(np.random.default_rng([before.seed, 4]), n // same)
    worlds = TaskWorlds(task, n, family=before.family, threads=1)
    policy = gait_policy(before.shares, task.control_dt)
    return episodes(worlds, policy, repeated(scenes, same), values, before.config.seconds)

"""A bank of retargeted robot trajectories for each scene, as a distribution over actions.

In scene s at time t, trajectory k (followed `lead` seconds ahead of the clock) asks for the action that brings the
tools to their next poses and gives the end effectors their numbers; the prior is the mixture

    p(a | x, t, s) = sum_k w_k(x, t) N(a; mean_k(x, t), diag(std^2)),   w_k ~ exp(-|x - x_k(t)|^2 / 2 h^2)

with x the positions of all tools. Where a trajectory tells a force, the end effector closes by what its servo gives way
under it, more while the fingertips feel less and less while they feel more. Actions are laid out as
`worlds.tasks.ActionSpec` does: robot by robot a twist, then the end effector's numbers. Robots of one scene have end
effectors with as many numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import make_header, read_tensors, write_tensors
from dexprior.config import Ge, Gt, Le, config, config_hash, to_plain, validate
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.geometry.rotations import axis_angle_from_quat, quat_conjugate, quat_multiply
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.retarget.grips import GripMap

__all__ = ["BehaviorConfig", "BehaviorPrior"]

SCHEMA = "dexprior.behavior/5"


@config
class BehaviorConfig:
    """How trajectories become a distribution."""

    std_twist: Annotated[float, Gt(0)] = 0.08
    """Standard deviation of the linear numbers of a twist (a share of the fastest)."""
    std_turn: Annotated[float, Gt(0)] = 0.08
    """Standard deviation of its angular numbers."""
    std_end: Annotated[float, Gt(0)] = 0.06
    """Standard deviation of the end effector's numbers."""
    bandwidth: Annotated[float, Gt(0)] = 0.02
    """Distance at which a trajectory's weight falls to 0.6 [m]."""
    gain: Annotated[float, Gt(0)] = 6.0
    """How fast deviations from a trajectory are corrected [1/s]."""
    grip_feedback: Annotated[float, Ge(0), Le(1)] = 0.5
    """How much of the difference of wanted and felt force is added to the wanted one."""
    lead: Annotated[float, Ge(0)] = 0.04
    """How far ahead of the clock trajectories are followed [s]: the arm lags behind its commands by about as much."""
    steps: Annotated[int, Ge(2)] = 75
    """Control periods that each trajectory is resampled to; its last pose is held."""


@dataclass(frozen=True)
class BehaviorPrior:
    """p(action | tool poses, time, scene)."""

    config: BehaviorConfig
    scale: Float[np.ndarray, 6]
    """Twist that an action of 1 stands for [m/s, rad/s]."""
    dt: float
    """Control period [s]."""
    tool: Float[np.ndarray, "scene sample step robot 7"]
    end: Float[np.ndarray, "scene sample step robot end"]
    """Numbers of the end effectors, as in actions: -1 closed, 1 open."""
    panel_hash: str
    """The panel whose instances are the scenes."""
    force: Float[np.ndarray, "scene sample step robot"] | None = None
    """Wanted of each fingertip [N]; None where none is told."""
    give: float = 0.0
    """What a newton on each fingertip changes in an end effector's numbers [1/N]."""
    sentences: tuple[str, ...] = ()
    """What each sample of every scene was asked for, where that was not one thing in all of them."""

    @classmethod
    def of_tools(
        cls,
        trajectories: Sequence[Sequence[ToolTrajectory]],
        config: BehaviorConfig,
        *,
        grip: GripMap,
        scale: Float[np.ndarray, 6],
        dt: float,
        panel_hash: str,
    ) -> BehaviorPrior:
        """A bank of one robot whose end effector closes by one number, sampled at control periods.

        Args:
            trajectories: for each scene, its samples; every scene has as many.
            config: how they become a distribution.
            grip: from openings and forces to the end effector's numbers.
            scale: twist that an action of 1 stands for [m/s, rad/s].
            dt: control period [s].
            panel_hash: of the panel of these scenes.

        Raises:
            BadInput: a scene without a trajectory, or scenes with different numbers of them.
        """
        sizes = {len(row) for row in trajectories}
        if len(sizes) != 1 or 0 in sizes:
            raise BadInput(f"every scene needs the same number of trajectories, at least one; got {sorted(sizes)}")
        grid = dt * np.arange(config.steps)
        now = [[one.at(grid) for one in row] for row in trajectories]
        tool = np.array([[one.at(grid + config.lead).tool for one in row] for row in trajectories])
        end = grip.numbers(np.array([[one.opening for one in row] for row in now]))
        force = np.array([[one.force for one in row] for row in now])
        scale = np.asarray(scale, dtype=np.float64)
        end = np.repeat(end[..., None, None], grip.size, axis=-1)
        return cls(config, scale, dt, tool[..., None, :], end, panel_hash, force[..., None], grip.give)

    @staticmethod
    def together(banks: Sequence[BehaviorPrior], sentences: Sequence[str]) -> BehaviorPrior:
        """Banks of the same scenes and settings as one, each with a sentence that all its trajectories were asked for.

        Raises:
            BadInput: banks of different scenes, periods or hands.
        """
        first = banks[0]
        for other in banks[1:]:
            if (other.panel_hash, other.config, other.dt, other.give) != (
                first.panel_hash, first.config, first.dt, first.give
            ):  # fmt: skip
                raise BadInput("banks of different panels, settings or end effectors cannot be one")
        forces = [bank.force for bank in banks if bank.force is not None]
        return replace(
            first, tool=np.concatenate([bank.tool for bank in banks], axis=1),
            end=np.concatenate([bank.end for bank in banks], axis=1),
            force=np.concatenate(forces, axis=1) if forces else None,
            sentences=tuple(s for bank, s in zip(banks, sentences, strict=True) for _ in range(bank.tool.shape[1])),
        )  # fmt: skip

    def asked(self, sentence: str | None) -> BehaviorPrior:
        """The trajectories of one sentence; None takes the first of several, and all where there is one.

        Raises:
            UnknownName: none was made for it.
        """
        if sentence is None and len(set(self.sentences)) < 2:
            return self
        chosen = self.sentences[0] if sentence is None else sentence
        if chosen not in self.sentences:
            raise UnknownName("sentence", chosen, self.sentences)
        ids = [k for k, one in enumerate(self.sentences) if one == chosen]
        force = None if self.force is None else self.force[:, ids]
        return replace(self, tool=self.tool[:, ids], end=self.end[:, ids], force=force, sentences=(chosen,))

    @property
    def size(self) -> int:
        """Numbers in an action."""
        return self.tool.shape[3] * (6 + self.end.shape[4])

    def components(
        self,
        tools: Float[np.ndarray, "n robot 7"],
        t: Float[np.ndarray, " n"],
        scene: Int[np.ndarray, " n"],
        grips: Float[np.ndarray, "n robot"] | None = None,
    ) -> tuple[Float[np.ndarray, "n sample action"], Float[np.ndarray, "n sample"]]:
        """Means and log weights of the mixture.

        Args:
            tools: tool poses now, base frame.
            t: seconds since reset.
            scene: which scene each world shows.
            grips: mean force on each end effector's fingertips now [N]; None counts as what is wanted.
        """
        step = self._step(t)
        ahead = np.minimum(step + 1, self.tool.shape[2] - 1)
        target, now = self.tool[scene, :, ahead], self.tool[scene, :, step]
        error = now[..., :3] - tools[:, None, :, :3]
        feedforward = (target[..., :3] - now[..., :3]) / self.dt
        turn = axis_angle_from_quat(quat_multiply(now[..., 3:], quat_conjugate(tools[..., 3:])[:, None]))
        twist = np.concatenate([feedforward + self.config.gain * error, self.config.gain * turn], axis=-1)
        numbers = self.end[scene, :, step]
        if self.force is not None:
            wanted = self.force[scene, :, step]
            missing = 0.0 if grips is None else wanted - grips[:, None]
            push = np.where(wanted > 0.0, wanted + self.config.grip_feedback * missing, 0.0)
            numbers = numbers - self.give * push[..., None]
        numbers = np.clip(numbers, -1, 1)
        mean = np.concatenate([np.clip(twist / self.scale, -1, 1), numbers], axis=-1)
        logits = -0.5 * (np.linalg.norm(error, axis=(-2, -1)) / self.config.bandwidth) ** 2
        logits -= logits.max(axis=1, keepdims=True)
        log_weight = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return mean.reshape(*mean.shape[:2], self.size), log_weight

    def distances(
        self, tools: Float[np.ndarray, "n robot 7"], t: Float[np.ndarray, " n"], scene: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n sample"]:
        """Distance of all tools' positions together from where each trajectory has them now [m]; see `components`."""
        error = self.tool[scene, :, self._step(t), :, :3] - tools[:, None, :, :3]
        return np.linalg.norm(error, axis=(-2, -1))

    def _step(self, t: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return np.clip(np.round(np.asarray(t) / self.dt).astype(int), 0, self.tool.shape[2] - 1)

    @property
    def std(self) -> Float[np.ndarray, " action"]:
        """Standard deviation of every component."""
        robot = [self.config.std_twist] * 3 + [self.config.std_turn] * 3 + [self.config.std_end] * self.end.shape[4]
        return np.array(robot * self.tool.shape[3])

    def sample(
        self,
        rng: np.random.Generator,
        tools: Float[np.ndarray, "n robot 7"],
        t: Float[np.ndarray, " n"],
        scene: Int[np.ndarray, " n"],
        grips: Float[np.ndarray, "n robot"] | None = None,
    ) -> Float[np.ndarray, "n action"]:
        """One action for each world."""
        mean, log_weight = self.components(tools, t, scene, grips)
        u = rng.random((len(mean), 1))
        pick = (np.exp(log_weight).cumsum(axis=1) < u).sum(axis=1).clip(max=mean.shape[1] - 1)
        return mean[np.arange(len(mean)), pick] + self.std * rng.normal(size=(len(mean), self.size))

    def log_prob(
        self,
        action: Float[np.ndarray, "n action"],
        tools: Float[np.ndarray, "n robot 7"],
        t: Float[np.ndarray, " n"],
        scene: Int[np.ndarray, " n"],
        grips: Float[np.ndarray, "n robot"] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Log density of actions under the mixture."""
        mean, log_weight = self.components(tools, t, scene, grips)
        z = (action[:, None] - mean) / self.std
        log_normal = -0.5 * (z**2).sum(-1) - np.log(self.std).sum() - 0.5 * self.size * np.log(2 * np.pi)
        joint = log_weight + log_normal
        top = joint.max(axis=1)
        return top + np.log(np.exp(joint - top[:, None]).sum(axis=1))

    def save(self, path: Path, *, parents: tuple[str, ...] = ()) -> Path:
        """Write as one file."""
        header = make_header(SCHEMA, producer="behavior", config=self.config, parents=parents)
        meta = {
            "header": to_plain(header),
            "config": to_plain(self.config),
            "dt": self.dt,
            "panel_hash": self.panel_hash,
            "give": self.give,
            "sentences": list(self.sentences),
        }
        tensors = {"tool": self.tool, "end": self.end, "scale": self.scale}
        return write_tensors(path, tensors | ({} if self.force is None else {"force": self.force}), meta)

    @classmethod
    def load(cls, path: str | Path) -> BehaviorPrior:
        """Read what `save` wrote.

        Raises:
            ArtifactError: missing, damaged, or another kind of file.
        """
        tensors, meta = read_tensors(path)
        if meta.get("header", {}).get("schema") != SCHEMA:
            raise ArtifactError(
                f"{path} is no behavioral prior of schema {SCHEMA!r}; make one: dexprior build-behavior"
            )
        config = validate(BehaviorConfig, meta["config"], where=str(path))
        if meta["header"]["config_hash"] != config_hash(config):
            raise ArtifactError(f"{path}: its configuration does not fit its header")
        return cls(
            config, tensors["scale"], meta["dt"], tensors["tool"], tensors["end"], meta["panel_hash"],
            tensors.get("force"), meta["give"], tuple(meta["sentences"]),
        )  # fmt: skip

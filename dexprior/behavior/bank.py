"""A bank of retargeted robot trajectories for each scene, as a distribution over actions.

In scene s at time t, trajectory k (followed `lead` seconds ahead of the clock) asks for the action that brings the tool
to its next pose; the prior is the mixture

    p(a | x, t, s) = sum_k w_k(x, t) N(a; mean_k(x, t), diag(std^2)),   w_k ~ exp(-|x - x_k(t)|^2 / 2 h^2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import make_header, read_tensors, write_tensors
from dexprior.config import Ge, Gt, config, config_hash, to_plain, validate
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.rotations import axis_angle_from_quat, quat_conjugate, quat_multiply
from dexprior.geometry.transforms import interpolate_poses
from dexprior.types import JointTrajectory

__all__ = ["BehaviorConfig", "BehaviorPrior"]

SCHEMA = "dexprior.behavior/1"


@config
class BehaviorConfig:
    """How trajectories become a distribution."""

    std_twist: Annotated[float, Gt(0)] = 0.08
    """Standard deviation of the six twist actions (a share of the fastest)."""
    std_opening: Annotated[float, Gt(0)] = 0.06
    """Standard deviation of the opening action."""
    bandwidth: Annotated[float, Gt(0)] = 0.02
    """Distance at which a trajectory's weight falls to 0.6 [m]."""
    gain: Annotated[float, Gt(0)] = 6.0
    """How fast deviations from a trajectory are corrected [1/s]."""
    lead: Annotated[float, Ge(0)] = 0.04
    """How far ahead of the clock trajectories are followed [s]: the arm lags behind its commands by about as much."""
    steps: Annotated[int, Ge(2)] = 75
    """Control periods that each trajectory is resampled to; its last pose is held."""
    max_infeasible: Annotated[float, Ge(0)] = 0.1
    """Trajectories with a larger share of infeasible frames are left out where the scene has a better one."""


@dataclass(frozen=True)
class BehaviorPrior:
    """p(action | tool pose, time, scene)."""

    config: BehaviorConfig
    scale: Float[np.ndarray, 6]
    """Twist that an action of 1 stands for [m/s, rad/s]."""
    max_opening: float
    dt: float
    """Control period [s]."""
    tool: Float[np.ndarray, "scene sample step 7"]
    opening: Float[np.ndarray, "scene sample step"]
    panel_hash: str
    """The panel whose instances are the scenes."""

    @classmethod
    def build(
        cls,
        trajectories: Sequence[Sequence[JointTrajectory]],
        openings: Sequence[Sequence[Float[np.ndarray, " time"]]],
        config: BehaviorConfig,
        *,
        scale: Float[np.ndarray, 6],
        max_opening: float,
        dt: float,
        panel_hash: str,
    ) -> tuple[BehaviorPrior, dict[str, Any]]:
        """Resample trajectories to control periods; returns (prior, counts of what was left out).

        Args:
            trajectories: for each scene, its samples; every scene needs as many.
            openings: commanded openings [m] of the same frames.

        Raises:
            BadInput: a scene without a trajectory, or scenes with different numbers of them.
        """
        sizes = {len(samples) for samples in trajectories}
        if len(sizes) != 1 or 0 in sizes:
            raise BadInput(f"every scene needs the same number of trajectories, at least one; got {sorted(sizes)}")
        grid = config.lead + dt * np.arange(config.steps)
        left_out = hopeless = 0
        tool, opening = [], []
        for samples, commanded in zip(trajectories, openings):
            good = [k for k, s in enumerate(samples) if (~s.feasible).mean() <= config.max_infeasible]
            if good:
                left_out += len(samples) - len(good)
            else:  # every scene must have a trajectory: the one that fails least
                hopeless += 1
                good = [int(np.argmax([s.feasible.mean() for s in samples]))]
            chosen = [good[k % len(good)] for k in range(len(samples))]
            tool.append([interpolate_poses(grid, samples[k].t, samples[k].ee_pose) for k in chosen])
            opening.append([np.interp(grid, samples[k].t, commanded[k]) for k in chosen])
        prior = cls(
            config,
            np.asarray(scale, dtype=np.float64),
            max_opening,
            dt,
            np.array(tool),
            np.array(opening),
            panel_hash,
        )
        total = sum(len(s) for s in trajectories)
        counts = {"scenes": len(tool), "samples": total, "infeasible": left_out, "scenes_without_feasible": hopeless}
        return prior, counts

    def components(
        self, tcp: Float[np.ndarray, "n 7"], t: Float[np.ndarray, " n"], scene: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n sample 7"], Float[np.ndarray, "n sample"]]:
        """Means and log weights of the mixture.

        Args:
            tcp: tool poses now, base frame.
            t: seconds since reset.
            scene: which scene each world shows.
        """
        step = np.clip(np.round(np.asarray(t) / self.dt).astype(int), 0, self.tool.shape[2] - 1)
        ahead = np.minimum(step + 1, self.tool.shape[2] - 1)
        target, now = self.tool[scene, :, ahead], self.tool[scene, :, step]
        error = now[..., :3] - tcp[:, None, :3]
        feedforward = (target[..., :3] - now[..., :3]) / self.dt
        turn = axis_angle_from_quat(quat_multiply(now[..., 3:], quat_conjugate(tcp[:, 3:])[:, None]))
        twist = np.concatenate([feedforward + self.config.gain * error, self.config.gain * turn], axis=-1)
        opening = 2.0 * self.opening[scene, :, step] / self.max_opening - 1.0
        mean = np.concatenate([np.clip(twist / self.scale, -1, 1), np.clip(opening, -1, 1)[..., None]], axis=-1)
        logits = -0.5 * (np.linalg.norm(error, axis=-1) / self.config.bandwidth) ** 2
        logits -= logits.max(axis=1, keepdims=True)
        return mean, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    @property
    def std(self) -> Float[np.ndarray, 7]:
        """Standard deviation of every component."""
        return np.array([self.config.std_twist] * 6 + [self.config.std_opening])

    def sample(
        self,
        rng: np.random.Generator,
        tcp: Float[np.ndarray, "n 7"],
        t: Float[np.ndarray, " n"],
        scene: Int[np.ndarray, " n"],
    ) -> Float[np.ndarray, "n 7"]:
        """One action for each world."""
        mean, log_weight = self.components(tcp, t, scene)
        u = rng.random((len(mean), 1))
        pick = (np.exp(log_weight).cumsum(axis=1) < u).sum(axis=1).clip(max=mean.shape[1] - 1)
        return mean[np.arange(len(mean)), pick] + self.std * rng.normal(size=(len(mean), 7))

    def log_prob(
        self,
        action: Float[np.ndarray, "n 7"],
        tcp: Float[np.ndarray, "n 7"],
        t: Float[np.ndarray, " n"],
        scene: Int[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Log density of actions under the mixture."""
        mean, log_weight = self.components(tcp, t, scene)
        z = (action[:, None] - mean) / self.std
        log_normal = -0.5 * (z**2).sum(-1) - np.log(self.std).sum() - 3.5 * np.log(2 * np.pi)
        joint = log_weight + log_normal
        top = joint.max(axis=1)
        return top + np.log(np.exp(joint - top[:, None]).sum(axis=1))

    def save(self, path: Path, *, parents: tuple[str, ...] = ()) -> Path:
        """Write as one file."""
        header = make_header(SCHEMA, producer="behavior", config=self.config, parents=parents)
        meta = {
            "header": to_plain(header),
            "config": to_plain(self.config),
            "max_opening": self.max_opening,
            "dt": self.dt,
            "panel_hash": self.panel_hash,
        }
        return write_tensors(path, {"tool": self.tool, "opening": self.opening, "scale": self.scale}, meta)

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
            config, tensors["scale"], meta["max_opening"], meta["dt"], tensors["tool"], tensors["opening"],
            meta["panel_hash"],
        )  # fmt: skip

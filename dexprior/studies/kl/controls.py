"""What else could have done it: other priors, other uses of the same prior, and more of the simulator, side by side.

All arms act in the same worlds with the same networks and steps, and are scored on the ladder's scenes. Their CPU time
is kept, and that of the demonstrations, the prior and the bank is added where an arm needs them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import read_object, write_json
from dexprior.behavior import BehaviorPrior
from dexprior.config import Ge, config
from dexprior.data.stacks import load_stack
from dexprior.envs.base import Reading, tracked
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, UnknownName
from dexprior.families import ParameterFamily
from dexprior.pipeline.following import bank_of, clips_of_stack, gripper_of, tool_trajectories
from dexprior.pipeline.ladder import everywhere
from dexprior.pipeline.line import Line
from dexprior.pipeline.stages import parents_of, run_stage
from dexprior.pipeline.worlds import SCORING, judging_worlds
from dexprior.policy.actor import save_actor
from dexprior.policy.collecting import RewardOf
from dexprior.policy.kl import KlConfig
from dexprior.policy.ppo import PpoConfig, train_ppo, warm_up_of
from dexprior.policy.rollout import Policy, actor_policy, prior_policy
from dexprior.progress import say
from dexprior.studies.kl.seeds import over_seeds
from dexprior.studies.parts import Part, run_parts
from dexprior.worlds.tasks import Task, strategy_of

__all__ = ["ARMS", "ControlsConfig", "study_controls"]

WORLDS = ("training", "other", "others", "laws")
_APART = 0.004  # [m] by which a biased prior is off
_NONE = KlConfig(start=0.0)


@config
class ControlsConfig:
    """Arms, seeds and sizes."""

    run: str = "runs/demo"
    """Folder of a finished line, whose demonstrations, bank and policy settings are used."""
    arms: tuple[str, ...] = ("kl", "kl_0", "raw", "raw_bc", "nearest", "soft_dr")
    """Arms that are scored over all seeds..."""
    once: tuple[str, ...] = (
        "bc", "shuffled", "still", "biased", "gaussian", "resets", "track", "goal", "plain", "plain_all", "rigid_dr",
        "rigid_dr_4", "rigid_dr_16", "soft_bc",
    )  # fmt: skip
    """...and those with the first seed alone; `ARMS` says what each is."""
    seeds: Annotated[int, Ge(1)] = 5
    """Seeds of the training, from 0."""
    scored: Annotated[int, Ge(2)] = 64
    """Scenes that each arm is scored on, in each world."""
    policy: PpoConfig | None = None
    """Training of all arms; the line's own by default."""
    bound: Annotated[int, Ge(1)] = 128
    """Most demonstrations that a bank of raw ones holds."""


@dataclass(frozen=True)
class _Given:
    """What arms are made from."""

    line: Line
    policy: PpoConfig
    bank: BehaviorPrior
    panel: Panel
    settings: ControlsConfig

    @classmethod
    def of(cls, settings: ControlsConfig) -> _Given:
        line = Line.load(settings.run, scored=settings.scored)
        folder = line.folder["04-behavior"]
        return cls(
            line, settings.policy or line.config.policy, BehaviorPrior.load(folder / "behavior.safetensors"),
            Panel.load(folder / "panel.json"), settings,
        )  # fmt: skip

    @functools.cached_property
    def raw(self) -> tuple[BehaviorPrior, Panel]:
        """Retargeted demonstrations of the bank's way, or of the most frequent one, as a bank of their own scenes; with
        the robot's object, where there are any."""
        line, task = self.line, self.line.task
        stack = load_stack(line.folder["01-demonstrations"], line.config.prior.size)
        ways = [strategy_of(task.name, condition.text).name for condition in stack.conditions]
        same = [k for k, info in enumerate(stack.info) if _same_object(task, info["object"])] or [*range(len(stack))]
        shown = [ways[k] for k in same]
        asked = line.config.bank.sentence
        sentence = asked if isinstance(asked, str) or asked is None else asked[0]
        way = max(set(shown), key=shown.count) if sentence is None else strategy_of(task.name, sentence).name
        own = [k for k in same if ways[k] == way][: self.settings.bound]
        if not own:
            raise BadInput(f"{line.folder['01-demonstrations']} holds no demonstration of {way!r}")
        clips = clips_of_stack(stack[own])
        scenes = {name: np.array([clip.scene[name] for clip in clips]) for name in clips[0].scene}
        drawn = Panel.sample("train", task, len(clips), seed=line.config.seed, purpose="training")
        panel = replace(drawn, scenes=scenes)
        made = tool_trajectories(task, clips, line.gripper, alike=True, gated=line.config.bank.gated)
        bank = bank_of(task, gripper_of(task), made, line.config.bank.behavior, panel.hash)
        return bank, panel


def _same_object(task: Task, told: Mapping[str, Any]) -> bool:
    settings = getattr(task, "config", None)
    return all(getattr(settings, name, value) == value for name, value in told.items() if name != "timestep")


@dataclass(frozen=True)
class _Trial:
    """How an arm is trained."""

    prior: BehaviorPrior | None
    panel: Panel
    policy: PpoConfig
    reward: RewardOf | None = None


Arm = Callable[[_Given], _Trial | Policy]


def _with(given: _Given, **changes: Any) -> PpoConfig:
    return replace(given.policy, **changes)


def _kl(given: _Given) -> _Trial:
    """KL to the bank of samples."""
    return _Trial(given.bank, given.panel, given.policy)


def _kl_0(given: _Given) -> _Trial:
    """The same warm-up, then PPO without the KL."""
    return _Trial(given.bank, given.panel, _with(given, kl=_NONE))


def _bc(given: _Given) -> _Trial:
    """The warm-up alone: the bank imitated."""
    return _Trial(given.bank, given.panel, warm_up_of(given.policy))


def _raw(given: _Given) -> _Trial:
    """KL to raw demonstrations, retargeted, in place of samples."""
    return _Trial(*given.raw, given.policy)


def _raw_bc(given: _Given) -> _Trial:
    """Raw demonstrations imitated."""
    return _Trial(*given.raw, warm_up_of(given.policy))


def _nearest(given: _Given) -> Policy:
    """No training: the demonstration of the most similar scene, followed."""
    bank, panel = given.raw
    names = [name for name, value in panel.scenes.items() if np.issubdtype(value.dtype, np.number)]

    def flat(scenes: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n number"]:
        return np.concatenate([scenes[name].reshape(len(scenes[name]), -1) for name in names], axis=1)

    known = flat(panel.scenes)
    spread = np.maximum(known.std(axis=0), 1e-6)
    scored = given.line.task.sample(np.random.default_rng([SCORING, 0]), given.settings.scored)
    apart = np.linalg.norm((flat(scored)[:, None] - known) / spread, axis=2)
    return prior_policy(bank, apart.argmin(axis=1))


def _shuffled(given: _Given) -> _Trial:
    """KL to a bank in which every scene has another one's trajectory: useless."""
    order = np.random.default_rng(7).permutation(len(given.panel))
    order = np.where(order == np.arange(len(order)), np.roll(order, 1), order)
    return _Trial(_reordered(given.bank, order), given.panel, given.policy)


def _reordered(bank: BehaviorPrior, order: Int[np.ndarray, " scene"]) -> BehaviorPrior:
    force = None if bank.force is None else bank.force[order]
    return replace(bank, tool=bank.tool[order], end=bank.end[order], force=force)


def _still(given: _Given) -> _Trial:
    """KL to a bank that stays where it begins: useless."""
    bank = given.bank
    force = None if bank.force is None else np.zeros_like(bank.force)
    still = replace(bank, tool=np.repeat(bank.tool[:, :, :1], bank.tool.shape[2], axis=2), force=force)
    return _Trial(
        replace(still, end=np.repeat(bank.end[:, :, :1], bank.end.shape[2], axis=2)), given.panel, given.policy
    )


def _biased(given: _Given) -> _Trial:
    """KL to a bank that is four millimetres off, to one side in all scenes."""
    tool = given.bank.tool.copy()
    tool[..., 0] += _APART
    return _Trial(replace(given.bank, tool=tool), given.panel, given.policy)


def _gaussian(given: _Given) -> _Trial:
    """KL to one Gaussian a moment, fitted to all trajectories: their mean path in every scene, as wide as they are."""
    bank = given.bank
    tool = np.broadcast_to(bank.tool.mean(axis=(0, 1), keepdims=True), bank.tool.shape).copy()
    tool[..., 3:] /= np.linalg.norm(tool[..., 3:], axis=-1, keepdims=True)
    end = np.broadcast_to(bank.end.mean(axis=(0, 1), keepdims=True), bank.end.shape).copy()
    force = None
    if bank.force is not None:
        force = np.broadcast_to(bank.force.mean(axis=(0, 1), keepdims=True), bank.force.shape).copy()
    speed = np.diff(bank.tool[..., :3], axis=2).std(axis=(0, 1)).mean() / bank.dt / bank.scale[0]
    wide = bank.end.std(axis=(0, 1)).mean()
    settings = replace(
        bank.config, std_twist=max(float(speed), bank.config.std_twist), std_end=max(float(wide), bank.config.std_end)
    )
    return _Trial(replace(bank, tool=tool, end=end, force=force, config=settings), given.panel, given.policy)


def _resets(given: _Given) -> _Trial:
    """No KL and no imitation: episodes that begin somewhere along the sample's way (OmniReset)."""
    policy = _with(given, kl=_NONE, warmup=0, guided=0, resets=0.75)
    return _Trial(given.bank, given.panel, policy)


def _track(given: _Given) -> _Trial:
    """No KL and no imitation: a reward for being where the sample's tool is (GALATEA), beside the task's own."""
    bank, task = given.bank, given.line.task

    def reward(reading: Reading, scene: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        near = np.exp(-bank.distances(reading.tools, reading.t, scene).min(axis=1) / _NEAR)
        return 0.5 * (near + task.reward(tracked(reading))["total"])

    return _Trial(None, given.panel, given.policy, reward)


def _goal(given: _Given) -> _Trial:
    """No KL and no imitation: episodes that begin along the sample's way, and a reward for bringing the object to where
    the sample's tool lets go of it (after Human2Sim2Robot)."""
    bank, task = given.bank, given.line.task
    held = bank.force[:, 0, :, 0] > 0.0 if bank.force is not None else bank.end[:, 0, :, 0, 0] < 0.0
    last = held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)
    place = bank.tool[np.arange(len(last)), 0, last, 0, :3]

    def reward(reading: Reading, scene: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        truth = tracked(reading)
        far = np.linalg.norm(truth["object"][:, :3] - place[scene], axis=1)
        return 0.5 * (np.exp(-far / _FAR) + task.reward(truth)["total"])

    return _Trial(given.bank, given.panel, _with(given, kl=_NONE, warmup=0, guided=0, resets=1.0), reward)


def _plain(given: _Given) -> _Trial:
    """PPO from scratch."""
    return _Trial(None, given.panel, given.policy)


def _plain_all(given: _Given) -> _Trial:
    """PPO from scratch, for as long as demonstrations, prior, bank and policy took together."""
    own = _seconds(given.line, "06-policy") or 1.0
    times = 1.0 + sum(_seconds(given.line, stage) for stage in _BEFORE) / own
    return _Trial(None, given.panel, _longer(given, times))


def _rigid_dr(given: _Given, times: float = 1.0) -> _Trial:
    """PPO from scratch in worlds whose parameters are drawn three times as wide."""
    return _Trial(None, _in(given, _wider(given.line.task.family, 3.0)), _longer(given, times))


def _soft_dr(given: _Given) -> _Trial:
    """The same, and contacts that give way: three times the time constants."""
    return _Trial(None, _in(given, _softer(_wider(given.line.task.family, 3.0))), given.policy)


def _soft_bc(given: _Given) -> _Trial:
    """The bank imitated in worlds whose contacts give way (SoftGym-style)."""
    return _Trial(given.bank, _in(given, _softer(given.line.task.family)), warm_up_of(given.policy))


ARMS: dict[str, Arm] = {
    "kl": _kl, "kl_0": _kl_0, "bc": _bc, "raw": _raw, "raw_bc": _raw_bc, "nearest": _nearest, "shuffled": _shuffled,
    "still": _still, "biased": _biased, "gaussian": _gaussian, "resets": _resets, "track": _track, "goal": _goal,
    "plain": _plain, "plain_all": _plain_all, "rigid_dr": _rigid_dr, "soft_dr": _soft_dr, "soft_bc": _soft_bc,
    "rigid_dr_4": functools.partial(_rigid_dr, times=4.0), "rigid_dr_16": functools.partial(_rigid_dr, times=16.0),
}  # fmt: skip
"""Arm -> how it is trained; the functions say what each is."""
_NEEDS_LINE = ("raw", "raw_bc", "nearest", *(name for name in ARMS if "plain" not in name and "dr" not in name))
_BEFORE = ("01-demonstrations", "02-prior", "04-behavior")
_NEAR, _FAR = 0.03, 0.05  # [m] at which a reward for being near falls to a third


def _in(given: _Given, family: ParameterFamily) -> Panel:
    return given.panel.moved_to(family.name, family, seed=given.line.config.seed)


def _longer(given: _Given, times: float) -> PpoConfig:
    return _with(given, iterations=max(round(given.policy.iterations * times), 1))


def _wider(family: ParameterFamily, times: float) -> ParameterFamily:
    """Ranges as many times as wide about their middle, without what no world can have."""
    changed = []
    for p in family.parameters:
        middle, half = 0.5 * (p.low + p.high), 0.5 * times * (p.high - p.low)
        low = middle - half if p.low < 0 else max(middle - half, 0.25 * p.low)
        changed.append(replace(p, low=low, high=middle + half))
    return replace(family, name=f"{family.name}-wide", parameters=tuple(changed))


def _softer(family: ParameterFamily) -> ParameterFamily:
    changed = [
        replace(p, low=3.0 * p.low, high=3.0 * p.high) if "timeconst" in p.name else p for p in family.parameters
    ]
    return replace(family, name=f"{family.name}-soft", parameters=tuple(changed))


def _seconds(line: Line, stage: str) -> float:
    """How long a stage of the line took [s]; 0 where it was not done."""
    path = line.folder[stage] / "done.json"
    return float(read_object(path)["seconds"]) if path.exists() else 0.0


def study_controls(
    settings: ControlsConfig, folder: Path, *, jobs: int = 1, say: Callable[[str], None] = say
) -> dict[str, Any]:
    """Train and score what was not done yet; writes `controls.json` into the folder.

    Args:
        settings: all settings.
        folder: each part has a folder of its own in it.
        jobs: parts that run side by side.
        say: where progress lines go.

    Returns:
        `arms`: arm -> what it is, success by world of each seed, CPU seconds with what it needs, and its curve;
        `over`: by how much `kl` exceeds each arm in each world, over the seeds that both have; `worlds`.

    Raises:
        UnknownName: an arm that there is not.
        ArtifactError: no finished line there.
    """
    for arm in (*settings.arms, *settings.once):
        if arm not in ARMS:
            raise UnknownName("arm", arm, ARMS)
    _Given.of(settings)
    parts: dict[str, Part] = {
        f"{arm}-{seed}": (functools.partial(_part, settings, folder, arm, seed), ())
        for seed in range(settings.seeds)
        for arm in (*settings.arms, *(settings.once if seed == 0 else ()))
    }
    results = run_parts(parts, folder, jobs=jobs, say=say)
    arms: dict[str, Any] = {}
    for name, result in results.items():
        arm, _, seed = name.rpartition("-")
        row = arms.setdefault(arm, {"what": _what(arm), "won": {}, "cpu_s": {}, "curve": {}})
        row["won"][seed], row["cpu_s"][seed], row["curve"][seed] = result["won"], result["cpu_s"], result["curve"]
    over = {arm: _over(arms["kl"], row) for arm, row in arms.items() if "kl" in arms and arm != "kl"}
    found = {"task": _Given.of(settings).line.config.task, "arms": arms, "over": over, "worlds": list(WORLDS)}
    write_json(folder / "controls.json", found)
    return found


def _what(arm: str) -> str:
    function = ARMS[arm]
    text = (function.func if isinstance(function, functools.partial) else function).__doc__ or ""
    return " ".join(text.split()) + (f" Times {function.keywords['times']:g}." if hasattr(function, "keywords") else "")


def _over(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Difference of success in each world over the seeds that both arms have."""
    shared = [seed for seed in one["won"] if seed in other["won"]]

    def rates(row: Mapping[str, Any], world: str) -> Sequence[float]:
        return [float(np.mean(row["won"][seed][world])) for seed in shared]

    return {world: over_seeds(rates(one, world), rates(other, world)) for world in WORLDS}


def _part(settings: ControlsConfig, folder: Path, arm: str, seed: int) -> dict[str, Any]:
    """One arm of one seed."""
    mine = folder / f"{arm}-{seed}"
    given = _Given.of(settings)

    def work() -> dict[str, Any]:
        began = time.process_time()
        made = ARMS[arm](given)
        curve: list[dict[str, float]] = []
        if isinstance(made, _Trial):
            actor, curve = train_ppo(
                given.line.task, made.panel, made.prior, made.policy, mine, seed=seed, reward=made.reward
            )
            save_actor(actor, mine / "actor.safetensors", seed=seed, extra={"arm": arm})
            made = actor_policy(actor)
        spent = time.process_time() - began
        if arm in _NEEDS_LINE:
            spent += sum(_seconds(given.line, stage) for stage in _BEFORE)
        won = everywhere(given.line, judging_worlds(given.line.task), made)
        return {
            "won": {world: won[world].astype(int).tolist() for world in WORLDS}, "cpu_s": round(spent, 1),
            "curve": curve,
        }  # fmt: skip

    parents = parents_of(given.line.folder["04-behavior"] / "behavior.safetensors")
    kept = (arm, given.policy, settings.scored, settings.bound)
    return run_stage(mine, "controls", kept, seed, work, parents=parents)

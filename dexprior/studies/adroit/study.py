"""The study of the Adroit door: arms over seeds, both rules of success, and experts that were made worse."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from dexprior.artifacts import write_json
from dexprior.config import Ge, config
from dexprior.data import catalog
from dexprior.errors import BadInput, UnknownName
from dexprior.pipeline.stages import parents_of, run_stage
from dexprior.policy.gym import EnvConfig, GymConfig, GymWorlds, evaluate_policy, train_gym
from dexprior.policy.gym.experts import Defect, Expert, read_prior, to_quality
from dexprior.policy.gym.training import prior_pairs
from dexprior.progress import say
from dexprior.stats import Rate
from dexprior.studies.adroit.arms import ARMS, OFF_POLICY, arm_config, door_rewards
from dexprior.studies.kl.seeds import over_seeds
from dexprior.studies.parts import Part, run_parts

__all__ = ["AdroitConfig", "study_adroit"]

Kind = Literal["noise", "bias", "slow", "delay"]
_LAST = 5  # looks that are pooled: single ones swing by twenty points


@config
class AdroitConfig:
    """Arms, seeds and priors."""

    env: str = "AdroitHandDoorSparse-v1"
    """Environment; the recorded demonstrations are of this one."""
    prior: str | None = None
    """File of the prior; the 25 human demonstrations by default (`dexprior data get adroit-door`)."""
    arms: tuple[str, ...] = ("bc", "none", "kl", "dapg")
    """Arms that are trained with all seeds..."""
    once: tuple[str, ...] = ("kl_fixed", "residual", "kl_sac")
    """...and those with the first seed alone."""
    off_policy: tuple[str, ...] = ("rlpd",)
    """Arms off policy, with `off_policy_seeds`."""
    seeds: Annotated[int, Ge(1)] = 5
    """Seeds of the training, from 0."""
    off_policy_seeds: Annotated[int, Ge(1)] = 3
    """Seeds of the arms off policy."""
    horizons: tuple[int, ...] = (200, 300)
    """Steps of the episodes in which policies are judged; the first is that of the training."""
    episodes: Annotated[int, Ge(1)] = 100
    """Episodes that a policy is judged on, from starts that training never draws."""
    expert: str | None = None
    """File of an expert that is made worse; none by default."""
    defects: tuple[Kind, ...] = ("noise", "bias", "slow", "delay")
    """How it is made worse..."""
    qualities: tuple[float, ...] = (0.1, 0.3, 0.6)
    """...and to which shares of won episodes, measured before anything is trained."""
    gym: GymConfig = GymConfig(env=EnvConfig(success_steps=26, reward_scale=0.1), judged=50, judge_every=4)
    """Settings that all arms share."""


def study_adroit(
    settings: AdroitConfig, folder: Path, *, jobs: int = 1, say: Callable[[str], None] = say
) -> dict[str, Any]:
    """Train and judge what was not done yet; writes `adroit.json` into the folder.

    Args:
        settings: all settings.
        folder: each part has a folder of its own in it.
        jobs: parts that run side by side.
        say: where progress lines go.

    Returns:
        `arms`: arm -> what it is, and for each seed the rates of both rules by horizon, the last looks pooled, and the
        curve; `over`: by how much `kl` exceeds each other arm in the pooled looks, over seeds; `degraded`: the same for
        each defect and quality, with the quality that was measured.

    Raises:
        UnknownName: an arm that there is not.
        BadInput: no data, or an expert's file that is none.
    """
    for arm in (*settings.arms, *settings.once, *settings.off_policy):
        if arm not in ARMS:
            raise UnknownName("arm", arm, ARMS)
    prior = Path(settings.prior) if settings.prior is not None else catalog.get("adroit-door")
    wanted = [(arm, seed) for seed in range(settings.seeds) for arm in settings.arms]
    wanted += [(arm, 0) for arm in settings.once]
    wanted += [(arm, seed) for arm in settings.off_policy for seed in range(settings.off_policy_seeds)]
    parts: dict[str, Part] = {
        f"{arm}-{seed}": (functools.partial(_part, settings, prior, folder, arm, seed, None), ())
        for arm, seed in wanted
    }
    degraded: dict[str, Any] = {}
    for kind in settings.defects if settings.expert is not None else ():
        for quality in settings.qualities:
            worse = f"{kind}-{round(100 * quality)}-percent"
            degraded[worse] = {}
            parts[worse] = functools.partial(_worsen, settings, folder / worse, kind, quality), ()
            for seed in range(settings.seeds):
                work = functools.partial(_part, settings, Path(settings.expert or ""), folder, "kl", seed, worse)
                parts[f"{worse}-{seed}"] = work, (worse,)
    results = run_parts(parts, folder, jobs=jobs, say=say)
    arms: dict[str, Any] = {}
    for arm, seed in wanted:
        arms.setdefault(arm, {"what": ARMS[arm], "seeds": {}})["seeds"][seed] = results[f"{arm}-{seed}"]
    for worse in degraded:
        seeds = {seed: results[f"{worse}-{seed}"] for seed in range(settings.seeds)}
        degraded[worse] = results[worse] | {"seeds": seeds}
    found = {"env": settings.env, "arms": arms, "degraded": degraded, "over": _over(arms)}
    write_json(folder / "adroit.json", found)
    return found


def _over(arms: dict[str, Any]) -> dict[str, Any]:
    """How much the KL exceeds each other arm in the pooled looks, over the seeds that both have."""
    if "kl" not in arms:
        return {}
    found = {}
    for arm, row in arms.items():
        shared = [seed for seed in arms["kl"]["seeds"] if seed in row["seeds"]] if arm != "kl" else []
        if shared:
            found[arm] = over_seeds(*([one["seeds"][s]["pooled"] for s in shared] for one in (arms["kl"], row)))
    return found


def _worsen(settings: AdroitConfig, folder: Path, kind: Kind, quality: float) -> dict[str, Any]:
    """How strong a defect brings the expert to a quality, and what it then is."""
    assert settings.expert is not None

    def work() -> dict[str, Any]:
        worlds = GymWorlds(settings.env, min(settings.episodes, 25), settings.gym.env)
        expert = read_prior(settings.expert or "", worlds)
        if not isinstance(expert, Expert):
            raise BadInput(f"adroit.expert={settings.expert}: recorded episodes, and only an expert gets worse")
        defect, share = to_quality(worlds, expert, kind, quality, seed=0, episodes=settings.episodes)
        worlds.close()
        return {"kind": kind, "wanted": quality, "strength": defect.strength, "quality": share}

    parents = parents_of(Path(settings.expert))
    return run_stage(folder, "worse", (settings.env, settings.gym.env, kind, quality), 0, work, parents=parents)


def _part(settings: AdroitConfig, prior: Path, folder: Path, arm: str, seed: int, worse: str | None) -> dict[str, Any]:
    """One arm of one seed, judged by both rules at every horizon."""
    mine = folder / f"{worse or arm}-{seed}"
    shared = replace(settings.gym, env=replace(settings.gym.env, horizon=settings.horizons[0]))
    chosen = arm_config(arm, shared)
    if worse is not None:
        kind, percent, _ = worse.split("-")
        told = _worsen(settings, folder / worse, kind, int(percent) / 100)  # type: ignore[arg-type]  # one of them
        chosen = replace(chosen, defect=Defect(kind=told["kind"], strength=told["strength"]))

    def work() -> dict[str, Any]:
        began = time.process_time()
        pairs, known = prior_pairs(settings.env, prior, chosen, seed=seed)
        if arm in OFF_POLICY and settings.prior is None:
            pairs = door_rewards(pairs)
        trained = train_gym(settings.env, chosen, mine, seed=seed, pairs=pairs)
        spent = time.process_time() - began
        rates = {}
        for horizon in settings.horizons:
            played = evaluate_policy(mine, replace(chosen.env, horizon=horizon), settings.episodes)
            rules = {"ever": played.won_steps >= 1, "rule": played.won_steps >= chosen.env.success_steps}
            rates[str(horizon)] = {
                name: Rate(int(won.sum()), settings.episodes).as_dict() for name, won in rules.items()
            }
        looks = [row.get("judged", row.get("success", 0.0)) for row in trained["curve"] if _of_the_mean(row)]
        pooled = float(np.mean(looks[-_LAST:])) if looks else rates[str(settings.horizons[0])]["rule"]["rate"]
        return {"rates": rates, "pooled": pooled, "cpu_s": round(spent, 1), **known, **trained}

    kept = (settings.env, chosen, settings.horizons, settings.episodes)
    return run_stage(mine, "adroit", kept, seed, work, parents=parents_of(prior))


def _of_the_mean(row: dict[str, float]) -> bool:
    """Whether a row of a curve says what the mean action does: all of SAC's, and those of PPO's looks."""
    return "judged" in row or "iteration" not in row

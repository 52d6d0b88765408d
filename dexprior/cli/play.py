"""Look at a task of the suite: its expert, a policy, random actions or none, counted, filmed, or in MuJoCo's viewer.

dexprior play task=peg                                    a film and the share of successes in runs/play
dexprior play task=peg settings.clearance=0.0001           another variant of the task
dexprior play task=soft_grasp world=reality n=32          the world that is not the training world
dexprior play task=peg family=runs/arm/family.json           with what the logs of a robot said of it
dexprior play policy=shipped                              the small policy that comes with dexprior, on its task
dexprior play policy=runs/demo/06-policy n=32             what you trained, through the sensors it was trained with
dexprior play task=peg view=true                          one world in MuJoCo's interactive viewer
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dexprior.cli.compose import files
from dexprior.cli.show import show, trained
from dexprior.config import Ge, Le, config
from dexprior.errors import BadInput, DexpriorError

if TYPE_CHECKING:
    from dexprior.families import SensorModels
    from dexprior.worlds.tasks import Task

HELP: dict[str, tuple[str, ...]] = {
    "": ("task", "settings", "player", "policy", "world", "n", "film", "view", "family", "phenomena", "out", "seed"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior play`."""

    task: str | None = None
    """Name of the task; by default the policy's, else peg."""
    module: str | None = None
    """A Python file that registers more tasks; see docs/tutorials/your-own-task.md."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of the task's configuration that differ from the defaults."""
    player: Literal["expert", "random", "still"] = "expert"
    """Who acts: the scripted expert, who knows the truth; random actions; nobody."""
    policy: str | None = None
    """Run folder of a policy of the suite, which then acts in place of the player; `shipped` is the small one of
    pick_place that comes with the package."""
    world: Literal["training", "reality"] = "training"
    """Family of the parameters: what the simulator assumes, or the other world."""
    family: str | tuple[str, ...] = ()
    """FILE, or several as FILE,FILE: what `dexprior ledger report`, `fit-noise` or `update` learned of a robot. Its
    parameters take the place of the task's of the same name in the training world."""
    sensors: str | None = None
    """FILE-sensors.json of `dexprior ledger fit-noise`: models of sensors and links."""
    phenomena: dict[str, Any] = field(default_factory=dict)
    """Laws of contact that the engine leaves out, e.g. phenomena={stribeck:{}}."""
    injectors: dict[str, float] = field(default_factory=dict)
    """Gaps that are not contact, each with a strength from 0 to 1, e.g. injectors={cables:0.5}: docs/families.md."""
    n: Annotated[int, Ge(1), Le(65536)] = 8
    """Worlds, each with an instance of its own."""
    film: Annotated[int, Ge(0)] = 4
    """How many of them are filmed; 0 makes no film."""
    size: Annotated[int, Ge(16), Le(2048)] = 240
    """Width and height of a tile of the film [px]."""
    view: bool = False
    """Show the first world in MuJoCo's viewer instead."""
    out: str = "runs/play"
    """Folder for TASK.mp4 and TASK.json."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of instances, parameters and random actions."""


def run(config: Config, words: list[str]) -> int:
    """Play and show."""
    from dexprior.artifacts import write_json
    from dexprior.envs.factory import SimulationOptions
    from dexprior.envs.panel import Panel
    from dexprior.envs.tasks import Film, Played, TaskVectorEnv, play, play_policy, player_of
    from dexprior.policy.actor import load_actor
    from dexprior.stats import clopper_pearson
    from dexprior.worlds.tasks import inject, learned_family
    from dexprior.worlds.viewer import Viewer

    if config.module is not None:
        _load(Path(config.module))
    trained_task, trained_with, folder = _played(config)
    task = inject(trained_task, config.injectors)
    family = learned_family(task, files(config.family))
    if config.world != "training":
        if config.family:
            raise BadInput("play: family is of the training world, world=reality has its own; give one of both")
        task, family = task.other(), task.reality
    told = SimulationOptions().told(config.sensors, config.phenomena)
    n = 1 if config.view else config.n
    panel = Panel.sample("play", task, n, seed=config.seed, family=family)
    sensors = trained_with.updated(told.sensors)
    env = TaskVectorEnv(task, n, panel=panel, sensors=sensors, phenomena=told.phenomena, autoreset=False)
    env.reset()
    actor = None if folder is None else load_actor(folder / "actor.safetensors")
    player = player_of(config.player, env.worlds, seed=config.seed)

    def played_by(film: Film | None = None, viewer: Viewer | None = None) -> Played:
        if actor is not None:
            return play_policy(env, actor.act, film=film, viewer=viewer)
        return play(env.worlds, player, film=film, viewer=viewer)

    out = Path(config.out)
    film = None
    if config.view:
        with Viewer(env.worlds.data(0)[0]) as viewer:
            played = played_by(viewer=viewer)
    else:
        out.mkdir(parents=True, exist_ok=True)  # before an episode is played for nothing
        film = Film(env, range(min(config.film, n)), size=config.size) if config.film else None
        played = played_by(film=film)
    result = {
        "task": task.name, "settings": config.settings, "player": config.player if folder is None else str(folder),
        "world": config.world,
        "family": family.name, "seed": config.seed, "instances": n,
        "solved": int(played.solved.sum()), "lost": int(played.lost.sum()),
        "solved_95": list(clopper_pearson(int(played.solved.sum()), n)),
        "reward": float(np.mean(played.reward)),
    }  # fmt: skip
    if film is not None:
        result["film"] = str(film.write(out / f"{task.name}.mp4"))
    env.close()
    write_json(out / f"{task.name}.json", result)
    show(result)
    return 0


def _played(config: Config) -> tuple[Task, SensorModels, Path | None]:
    """The task, the sensors that it is seen through, and the folder of the policy, where one plays.

    Raises:
        BadInput: a task or settings beside a policy that was trained for others.
    """
    from dexprior.families import SensorModels
    from dexprior.pipeline.stages import trained_sensors, trained_task
    from dexprior.worlds.tasks import make_task

    if config.policy is None:
        return make_task(config.task or "peg", **config.settings), SensorModels(), None
    if config.settings or config.player != "expert":
        raise BadInput(
            f"play policy={config.policy}: it plays the task that it was trained for; give no settings= and no player="
        )
    found = trained(config.policy, [], "policy", "dexprior train-policy")
    folder = found.parent if found.is_file() else found
    task = trained_task({"policy": folder})
    if config.task not in (None, task.name):
        raise BadInput(f"play task={config.task}: the policy {config.policy} was trained for {task.name!r}")
    return task, trained_sensors(folder), folder


def _load(path: Path) -> None:
    """Run the user's own file."""
    import importlib.util
    import traceback

    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise BadInput(f"module = {path}: no such Python file")
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except DexpriorError:
        raise
    except Exception as error:  # the user's own code: anything
        here = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else here[-1] if here else None
        raise BadInput(f"module = {path}, line {line}: {type(error).__name__}: {error}") from error

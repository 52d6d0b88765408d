"""Every command and every program of README, docs and `--help` runs, at sizes that teach nothing.

A command stands here as it stands there, with what makes it small; one that is new in a document fails the first test
until it has a line here. Pages of measurements are left out: their commands take hours.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.cli.main import VERBS, main
from dexprior.data import catalog
from dexprior.data.traces import export_traces, write_trace
from dexprior.types import Channel, Trace

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [path for path in DOCUMENTS if not {"measurements", "decisions"} & set(path.parts)]
WHOLE = ("your-own-collisions.md", "your-own-task.md", "your-own-videos.md", "your-robot-logs.md")
"""Tutorials whose blocks test_tutorial.py runs as they stand."""

PRIOR = "prior.steps=2 prior.size=24 prior.width=32 prior.layers=1 prior.heads=2 prior.channels=10 prior.batch=2"
POLICY = (
    "policy.worlds=4 policy.iterations=1 policy.warmup=1 policy.guided=1 policy.epochs=1 policy.warmup_epochs=1 "
    "policy.minibatch=300"
)
GYM = (
    "gym.clone.steps=20 gym.density.steps=4 gym.ppo.worlds=2 gym.ppo.iterations=1 gym.ppo.epochs=1 gym.judged=2 "
    "gym.off_policy.steps=400 gym.off_policy.every=200 gym.off_policy.batch=8 gym.off_policy.widths=[8] "
    "gym.off_policy.judged=1 gym.off_policy.learning_starts=380"
)
DENSITY = (
    f"prior={ROOT}/checkpoints/pick_place/prior bank.scenes=3 bank.motion_steps=12 bank.video_steps=1 fit.steps=4 "
    "fit.width=16 replays=8"
)
"""A density of a bank that can be followed: the smoke run's prior has learned nothing."""
BASE = (
    "collision.generator.pairs=400 collision.surrogate.width=12 collision.surrogate.depth=2 collision.distill.steps=40 "
    "collision.distill.batch=64 collision.identify.starts=2 collision.identify.steps=10"
)
OPPONENTS = (
    "collision.grid.friction=2 collision.grid.damping_ratio=2 collision.grid.time_constant=2 "
    "collision.grid.closed_form=5 collision.cma.evaluations=20 collision.clash.pairs=200 collision.clash.batch=64 "
    "collision.clash.steps=10"
)
LAB = (
    "lab.panel=8 lab.null=30 lab.signatures=4 lab.repeats=2 lab.training.generations=1 lab.training.instances=1 "
    "lab.training.population=4 lab.update.widenings=0 lab.update.conditioning.evaluations=8 lab.seconds=1"
)
ANSWER = (
    "answer.panel=2 answer.player=still answer.others=8 answer.window=0.7 answer.update.widenings=0 "
    "answer.update.conditioning.evaluations=8"
)
STRIKES = (
    "strikes.shapes=[square] strikes.methods=[real_only,hybrid] strikes.test=4 strikes.resamples=20 "
    "strikes.tuning.evaluations=8 strikes.tuning.population=4"
)
SHAPES = "shapes.pairs=64 training.steps=4 training.batch=16 network.width=16 network.depth=2"


def sh(text: str) -> list[str]:
    """Commands of a block, without comments, whitespace in one form, quotes where a word has spaces."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    return [" ".join(f"'{word}'" if " " in word else word for word in words) for words in split if words]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def documented() -> set[str]:
    """Every command of `dexprior` in a block of a document."""
    found = set()
    for path in DOCUMENTS:
        if path.name not in WHOLE:
            found |= {line for block in blocks(path, "sh") for line in sh(block) if line.startswith("dexprior")}
        found |= {" ".join(shlex.split(line)) for line in re.findall(r"^    (dexprior .*)", path.read_text(), re.M)}
    return found


def helped() -> set[str]:
    """Every line of a verb's help that begins with `dexprior`, whitespace in one form."""
    found: set[str] = set()
    for verb in VERBS:
        text = importlib.import_module(f"dexprior.cli.{verb.replace('-', '_')}").__doc__ or ""
        found |= {" ".join(line.split()) for line in text.splitlines() if line.startswith("dexprior ")}
    return found


# --- what commands need ----------------------------------------------------------------------------------------------


def _clip(ws: Path) -> None:
    folder = catalog.find("hand-clip")
    assert folder is not None
    shutil.copy(folder / "human_hand_video.mp4", ws / "CLIP.mp4")
    shutil.copy(folder / "human_joint_right.npz", ws / "LANDMARKS.npz")


def _bottle(ws: Path) -> None:
    shutil.copy(catalog.find("dexmv-mustard"), ws / "dexmv_mustard.npz")  # type: ignore[arg-type]


def _door(ws: Path) -> None:
    shutil.copy(catalog.get("adroit-door"), ws / "door_human.npz")


def _session(ws: Path) -> None:
    """A headset's table of a right hand."""
    from dexprior.types.hand import HAND_JOINTS

    (frame,) = _frame(ws).values()
    header = ["t", "hand", *(f"{name}_{axis}" for name in HAND_JOINTS for axis in "xyz")]
    rows = [[str(k / 72), "right", *map(str, np.ravel(frame))] for k in range(6)]
    (ws / "SESSION.csv").write_text("\n".join(map(",".join, [header, *rows])) + "\n")


def _frame(ws: Path) -> dict[str, object]:
    """A frame of a right hand."""
    from dexprior.geometry.transforms import IDENTITY_POSE
    from dexprior.hands import skeleton

    return {"joints": skeleton.forward(IDENTITY_POSE, np.full(45, 0.1))}


def _dexycb(ws: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "data" / "importers"))
    made = importlib.import_module("foreign_layouts")
    for name in ("mano", "DEXYCB"):
        (ws / name).mkdir()
    made.make_dexycb(ws / "DEXYCB", made.write_mano(ws / "mano"))


def _mug(ws: Path) -> None:
    """By the tutorial's own program, beside whatever else lies in the folder."""
    exec(blocks(ROOT / "docs" / "tutorials" / "your-own-object.md", "python")[0], {})


def _landmark_networks(ws: Path) -> None:
    """As the tutorial gets them."""
    wheel = ["download", "-q", "--no-deps", "--dest", str(ws / "wheel"), "mediapipe==0.10.21"]
    subprocess.run([sys.executable, "-m", "pip", *wheel], check=True)
    assert main(["data", "get", "hand-landmarks", f"source={next((ws / 'wheel').glob('*.whl'))}"]) == 0


def _read_hands(ws: Path) -> None:
    assert main(["estimate-pose", "samples=runs/samples/samples.safetensors", "out=runs/read"]) == 0


def _videos(ws: Path) -> None:
    _landmark_networks(ws)
    (ws / "VIDEOS").mkdir()
    shutil.copy(Path(os.environ["DEXPRIOR_DATA"]) / "hand_object" / "plate_push.mp4", ws / "VIDEOS")


def _demonstrations(ws: Path) -> None:
    shutil.rmtree(ws / "runs" / "demonstrations", ignore_errors=True)
    shutil.copytree(ws / "runs" / "demo" / "01-demonstrations", ws / "runs" / "demonstrations")


def _arm_log(ws: Path) -> None:
    example = ROOT / "docs" / "tutorials" / "example"
    program = [
        sys.executable,
        str(example / "arm_log.py"),
        str(example / "robot.csv"),
        str(ws / "LOGDIR" / "robot.csv"),
    ]
    subprocess.run(program, check=True, capture_output=True)
    shutil.copytree(ws / "LOGDIR", ws / "runs" / "logs")


def _robot_trace(ws: Path) -> None:
    t = np.arange(200) * 0.01
    channels = {
        name: Channel(t=t, t_host=t + 50.0, value=np.stack([np.sin(t), np.cos(t)], axis=1), unit="rad", frame="joint",
                      kind=kind) for name, kind in (("command", "commanded"), ("measured", "measured"))
    }  # fmt: skip
    trace = Trace(channels=channels, panel_hash="p", info={"joints": ["a", "b"]})
    (ws / "run.mcap").unlink(missing_ok=True)
    write_trace(trace, ws / "run.mcap")
    for name, format in (("bag", "rosbag"), ("demos.hdf5", "robomimic"), ("table.csv", "csv")):
        if not (ws / name).exists():
            export_traces([trace], format, ws / name)
    (ws / "layout.yaml").write_text("driven: {unit: rad, frame: joint, kind: commanded, source: command}\n")


def _diagnosis(ws: Path) -> None:
    found = {"contact": 0.6, "visual": 0.15, "sensor": 0.05, "object": 0.1, "environment": 0.05, "unknown": 0.05}
    write_json(ws / "diagnosis.json", found)


def _filled_sheet(ws: Path) -> None:
    """The plan's sheet as a site returns it, and recordings of the scripted expert for one of its protocols."""
    path = ws / "runs" / "plan" / "trials.csv"
    head, *rows = csv.reader(path.open())
    success = next(k for k, name in enumerate(head) if name.startswith("success"))
    for row in rows:
        pair, arm = row[head.index("pair")], row[head.index("arm")]
        row[success] = str(int(arm in ("with", "after") or int(pair[-1]) < 6))
    csv.writer(path.open("w", newline="")).writerows([head, *rows])
    from dexprior.envs.panel import Panel
    from dexprior.envs.sim import SimBackend
    from dexprior.policy.rollout import recorded, run_episodes
    from dexprior.worlds.tasks import expert_of, robot_task

    task, expert, memory = robot_task("pick_place").other(), expert_of("pick_place"), np.zeros((2, 4))
    panel = Panel.sample("site", task, 2, seed=3, family=task.reality)
    backend = SimBackend(task, 2, family=task.reality)

    def act(observation, reading):
        t = round(float(reading.t[0]) / task.control_dt) * task.control_dt
        return expert(reading.truth, backend.worlds.view.rigs, t, memory)

    episodes = run_episodes(act, backend, panel)
    protocol = next(row[head.index("protocol")] for row in rows if row[head.index("protocol")] != "verify")
    (ws / "recordings" / protocol).mkdir(parents=True)
    panel.save(ws / "recordings" / "panel.json")
    for k, trace in enumerate(recorded(episodes, panel, "other")):
        write_trace(trace, ws / "recordings" / protocol / f"{k}.mcap")
    shutil.copytree(ws / "runs" / "demo" / "06-policy", ws / "runs" / "mine" / "06-policy")


def _fill_round(folder: Path, name: str = "1") -> None:
    text = (folder / "round.yaml").read_text()
    for field, value in (("round", f"'{name}'"), ("policy", "grasp"), ("panel", "kitchen")):
        text = re.sub(rf"^{field}: \S+", f"{field}: {value}", text, flags=re.M)
    (folder / "round.yaml").write_text(text)
    rows = [f"{world},{k},{int(k < solved)}" for world, solved in (("simulator", 5), ("robot", 3)) for k in range(6)]
    (folder / "trials.csv").write_text("world,instance,success\n" + "\n".join(rows) + "\n")


def _round(ws: Path) -> None:
    _fill_round(ws / "runs" / "round-1")


def _second_round(ws: Path) -> None:
    assert main(["ledger", "new", "runs/round-2"]) == 0
    _fill_round(ws / "runs" / "round-2", name="2")
    assert main(["ledger", "add", "runs/round-2"]) == 0


def _probed_round(ws: Path) -> None:
    """A round whose probe was replayed by a robot with another friction, and explained."""
    from dexprior.families import ParameterFamily
    from dexprior.transfer.diagnosis import completed, identified
    from dexprior.transfer.replay import replay, wiping
    from dexprior.transfer.rounds import read_round
    from dexprior.transfer.rounds.adding import evidence_hash
    from dexprior.worlds.tasks import make_task

    task, folder = make_task("wipe"), ws / "runs" / "round-1"
    known = identified(task)
    probe = wiping(task, seconds=0.8)
    row = known.medians()
    row[known.names.index("plate_friction")] *= 1.2
    wide = completed(task, ParameterFamily("robot", tuple(p for p in known.parameters if p.name == "block_mass")))
    real = replay(probe, wide, row[None], repeats=2, seed=5)
    probe.save(folder / "probe.json")
    friction = tuple(p for p in known.parameters if p.name == "plate_friction")
    write_json(folder / "family.json", ParameterFamily("kitchen", friction).to_json())
    (folder / "replays").mkdir()
    for k in range(2):
        channels = {
            name: Channel(t=real.t, t_host=real.t, value=real.values[name][0, k], unit=real.units[name], frame="-",
                          kind="measured") for name in ("joints", "force")
        }  # fmt: skip
        write_trace(Trace(channels=channels, panel_hash="mine"), folder / "replays" / f"{k}.mcap")
    text = (folder / "round.yaml").read_text()
    for name, value in (("family", "family.json"), ("probe", "probe.json"), ("replays", "replays"), ("task", "wipe")):
        text = re.sub(rf"^{name}: \S+", f"{name}: {value}", text, flags=re.M)
    (folder / "round.yaml").write_text(text)
    shutil.rmtree(ws / "runs" / "round-2", ignore_errors=True)
    evidence = {"evidence": evidence_hash(folder, read_round(folder))}
    write_json(folder / "explanation.json", {"causes": {"friction": 0.9, "unknown": 0.1}, "seen": True} | evidence)


def _impacts(ws: Path) -> None:
    from dexprior.data.impacts import save_impacts
    from dexprior.data.simulated_impacts import generate_impacts

    save_impacts(generate_impacts(0, 60), ws / "impacts.npz")


def _folder_of_traces(ws: Path) -> None:
    """Traces with one clock: an episode of robomimic keeps the rate of its actions."""
    _robot_trace(ws)
    shutil.rmtree(ws / "runs" / "demos", ignore_errors=True)
    (ws / "runs" / "demos").mkdir()
    for name in ("a", "b"):
        shutil.copy(ws / "run.mcap", ws / "runs" / "demos" / f"{name}.mcap")


def _learned(ws: Path) -> None:
    """What `ledger update` and `fit-noise` leave, of an arm that is late."""
    from dexprior.config import to_plain
    from dexprior.families import ParameterFamily, SensorModels, actuation
    from dexprior.families.sensors import EncoderConfig

    write_json(ws / "late.json", ParameterFamily("late", actuation(delay=(0.02, 0.03))[:1]).to_json())
    write_json(ws / "noise-sensors.json", to_plain(SensorModels(encoder=EncoderConfig(step=0.001))))


def _plate_as_cube(ws: Path) -> None:
    """A family of the demo's task, where the round of the document is of another one."""
    from dexprior.worlds.tasks import make_task

    write_json(ws / "runs" / "round-2" / "family.json", make_task("pick_place").family.to_json())


def _hand_clip_source(ws: Path) -> None:
    shutil.copytree(catalog.find("hand-clip"), ws / "runs" / "hand_clip")  # type: ignore[arg-type]


def _push_policy(ws: Path) -> None:
    small = "push.steps=50 push.hidden=[8,8] push.learning_starts=50 push.checkpoint_every=50 out=runs/push"
    assert main(["train-policy", "task=push", *small.split()]) == 0


def _servo_logs(ws: Path) -> None:
    folder = Path(os.environ["DEXPRIOR_DATA"]) / "servo_bam" / "processed"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for name, chosen in (("train", files[:2]), ("test", files[2:3])):
        (ws / "servo" / name).mkdir(parents=True)
        for path in chosen:
            shutil.copy(path, ws / "servo" / name)


def _own_collision(ws: Path) -> None:
    """Models of one's own, where the tutorial leaves them."""
    _impacts(ws)
    for words in ("generate out=runs/mine/base", "distill out=runs/mine/base"):
        assert main(["collision", *words.split(), *BASE.split()]) == 0


# --- what runs ------------------------------------------------------------------------------------------------------

Prepare = Callable[[Path], None] | None
IN_BLOCKS: list[tuple[str, str, Prepare]] = [
    # a command of a document, what makes it small, what lies in the folder before it
    ("dexprior sample views=[side]", "n=2 motion_steps=2 video_steps=1", None),
    ("dexprior estimate-pose samples=runs/samples/samples.safetensors", "", None),
    (
        "dexprior retarget samples=runs/samples/samples.safetensors hand=runs/pose/hand.safetensors "
        "robot=arm7+parallel", "every=20", None,
    ),
    ("dexprior estimate-pose video=CLIP.mp4 landmarks=LANDMARKS.npz", "start=100 stop=112", _clip),
    ("dexprior retarget video=CLIP.mp4 robot=builtin-hand", "start=100 every=6", None),
    ("dexprior retarget hand=dexmv_mustard.npz", "every=120 out=runs/bottle", _bottle),
    (
        "dexprior condition cloud=mug.obj at=0.45,-0.1 grasp=three-finger goal=0.45,0.1 'text=put the mug on the mark' "
        "out=runs/mug/ask.safetensors", "", _mug,
    ),
    (
        "dexprior sample conditions=runs/mug/ask.safetensors out=runs/mug", "motion_steps=1 video_steps=1", None,
    ),
    ("dexprior estimate-pose samples=runs/mug/samples.safetensors out=runs/mug/hand", "", None),
    (
        "dexprior retarget hand=runs/mug/hand/hand.safetensors samples=runs/mug/samples.safetensors "
        "robot=builtin-hand out=runs/mug/robot", "every=16", None,
    ),
    ("dexprior retarget landmarks=SESSION.csv robot=builtin-hand", "every=3 out=runs/session", _session),
    ("dexprior play task=peg settings.clearance=0.0001", "n=1 film=1 size=48", None),
    ("dexprior demo", "preset=smoke threads=1 out=runs/demo", None),
    ("dexprior play policy=shipped", "n=1 film=1 size=48", None),
    ("dexprior sample prior=shipped out=runs/shipped", "n=1 motion_steps=2 video_steps=1", None),
    (
        "dexprior retarget samples=runs/shipped/samples.safetensors robot=arm7+parallel out=runs/shipped/robot",
        "every=20", None,
    ),
    ("dexprior data generate task=pick_place n=200 out=runs/pick_place", "n=4 suite.size=32", None),
    (
        "dexprior train-prior demonstrations=runs/pick_place out=runs/pick_place-prior",
        f"{PRIOR} prior.hiding.share=0.4", None,
    ),
    (
        "dexprior sample prior=runs/pick_place-prior out=runs/pick_place-samples", "n=1 motion_steps=1 video_steps=1",
        None,
    ),
    (
        "dexprior sample prior=runs/pick_place-prior video=runs/pick_place-samples/samples.safetensors "
        "out=runs/pick_place-read", "motion_steps=1", None,
    ),
    (
        "dexprior train-policy env=AdroitHandDoorSparse-v1 prior=door_human.npz gym.env.success_steps=26 out=runs/door",
        GYM, _door,
    ),
    ("dexprior evaluate env=AdroitHandDoorSparse-v1 policy=runs/door episodes=100", "episodes=2 out=runs/judged", None),
    ("dexprior data import kind=dexycb source=DEXYCB out=runs/dexycb", "imports.licence=CC-BY-4.0", _dexycb),
    ("dexprior data validate source=runs/dexycb", "", None),
    ("dexprior data inspect source=runs/dexycb out=runs/page", "", None),
    ("dexprior data export source=runs/dexycb out=runs/lerobot", "", None),
    ("dexprior data import videos=VIDEOS out=runs/clips wild.licence=CC-BY-4.0", "", _videos),
    ("dexprior train-prior videos=runs/clips", PRIOR, _demonstrations),
    (
        "dexprior train-prior demonstrations=runs/pick_place out=runs/seen prior.validate.every=100",
        PRIOR,
        None,
    ),
    ("dexprior ledger report LOGDIR out=runs/arm", "", _arm_log),
    ("dexprior ledger new runs/round-1", "", None),
    ("dexprior ledger add runs/round-1", "", _round),
    ("dexprior ledger plan runs/round-1 out=runs/plan plan.budget=150 plan.regulates_force=true", "", None),
    (
        "dexprior ledger plan diagnosis=diagnosis.json out=runs/own_rates plan.sim=0.9 plan.real=0.6", "", _diagnosis,
    ),
    (
        "dexprior ledger plan results=runs/plan/trials.csv out=runs/plan recordings=recordings "
        "policy=runs/mine/06-policy", "", _filled_sheet,
    ),
    (
        "dexprior train-policy data=runs/plan/train.json out=runs/next",
        POLICY.replace("worlds=4", "worlds=2"), None,
    ),
    ("dexprior ledger lab out=runs/lab", LAB, None),
    ("dexprior ledger update runs/lab/round-1 out=runs/lab/again by=family", "", None),
    ("dexprior data inspect traces=run.mcap", "", _robot_trace),
    (
        "dexprior data import traces=bag format=rosbag layout=layout.yaml out=run.mcap", "",
        lambda ws: (ws / "run.mcap").unlink(),
    ),
    ("dexprior data import traces=demos.hdf5 format=robomimic out=runs/demos", "", None),
    ("dexprior data export traces=run.mcap format=csv out=run", "", None),
    ("dexprior data export traces=runs/demos format=lerobot fps=50 out=set", "", _folder_of_traces),
    ("dexprior ledger report runs/logs out=runs/report", "", None),
    ("dexprior ledger compare runs/round-1 runs/round-2 out=runs/rounds", "", _second_round),
    ("dexprior ledger probe task=wipe out=runs/round-1", "", None),
    ("dexprior ledger update runs/round-1 out=runs/round-2", ANSWER, _probed_round),
    (
        "dexprior train-policy init=runs/demo/06-policy policy.warmup=0 family=runs/round-2/family.json out=runs/over",
        f"{POLICY} policy.warmup=0", _plate_as_cube,
    ),
    (
        "dexprior evaluate policy=runs/over family=runs/round-2/family.json baseline=runs/demo/06-policy",
        "evaluation.instances=4 out=runs/over_evaluation", None,
    ),
    (
        "dexprior collision evaluate set=strikes model=runs/mine/base/base.safetensors n_real=10 draws=2 "
        "out=runs/strikes.json", f"{STRIKES} strikes.settings=[1] n_real=5 draws=1 {BASE} {OPPONENTS}", _own_collision,
    ),
    (
        "dexprior collision plan set=strikes strikes.settings=[1,4] model=runs/mine/base/base.safetensors "
        "out=runs/plans.json",
        f"{STRIKES} strikes.settings=[1] n_real=5 draws=1 plan.targets=1 plan.repeats=1 plan.search.evaluations=20 "
        f"plan.search.population=10 {BASE} {OPPONENTS}", None,
    ),
    ("dexprior collision generate scene=striker_square shapes.pairs=12000 out=runs/pairs/square", SHAPES, None),
    (
        "dexprior collision generate scene=striker_semi_cylinder shapes.pairs=12000 out=runs/pairs/semi_cylinder",
        SHAPES, None,
    ),
    ("dexprior collision generate scene=striker_triangle shapes.pairs=12000 out=runs/pairs/triangle", SHAPES, None),
    (
        "dexprior collision distill pairs=[runs/pairs/square,runs/pairs/semi_cylinder] test=runs/pairs/triangle "
        "out=runs/shapes", SHAPES, None,
    ),
]  # fmt: skip

IN_HELP: list[tuple[str, str, Prepare]] = [
    # how a line of the help begins, the command that it describes at a small size (none: it stands in a block, too),
    # what lies in the folder before it
    (
        "dexprior data the same", "data n=2 out=runs/own suite.size=32", None,
    ),
    ("dexprior play policy=shipped", "", None),
    ("dexprior play policy=runs/demo", "play policy=runs/demo/06-policy n=1 film=1 size=48 out=runs/played", None),
    ("dexprior data generate task=", "data generate task=pick_place n=1 out=runs/suite suite.size=32", None),
    ("dexprior data list", "data list", None),
    ("dexprior data get NAME where", "data get hand-clip", None),
    ("dexprior data get NAME puts", "data get hand-clip source=runs/hand_clip", _hand_clip_source),
    (
        "dexprior data import foreign", "data import kind=lerobot source=runs/lerobot out=runs/again "
        "imports.licence=CC0-1.0", None,
    ),
    ("dexprior data import 2-4 s", "data import videos=VIDEOS out=runs/clips wild.licence=CC-BY-4.0", None),
    (
        "dexprior data import single", f"data import recording={ROOT}/docs/tutorials/example/drops.csv "
        f"layout={ROOT}/docs/tutorials/example/layout.yaml out=runs/impacts.npz", None,
    ),
    ("dexprior data import traces", "data import traces=table.csv format=csv out=table.mcap", None),
    ("dexprior data export source", "data export source=runs/own out=runs/own_set", None),
    ("dexprior data export traces", "data export traces=table.mcap format=robomimic out=table.hdf5", None),
    ("dexprior data inspect source", "data inspect source=runs/own out=runs/own_page", None),
    ("dexprior data inspect traces", "data inspect traces=table.mcap", None),
    ("dexprior data validate", "data validate source=runs/own", None),
    ("dexprior play task=peg a film", "play task=peg n=1 film=1 size=48", None),
    ("dexprior play task=peg settings", "play task=peg settings.clearance=0.0001 n=1 film=0", None),
    ("dexprior play task=peg family", "play task=peg family=late.json n=1 film=0", _learned),
    ("dexprior play task=soft_grasp", "play task=soft_grasp world=reality n=1 film=0 player=still", None),
    ("dexprior condition cloud=box.stl", "", None),
    ("dexprior sample conditions=runs/conditions", "", None),
    (
        "dexprior sample sentence", "sample 'sentence=first shove the block ahead, then lift it' n=1 motion_steps=1 "
        "video_steps=1 mask=[start,target,fingers,time] guidance.text=2 prior=runs/pick_place-prior out=runs/said",
        None,
    ),
    (
        "dexprior evaluate-prior checkpoint", "evaluate-prior evaluation.clips=2 evaluation.draws=2 "
        "evaluation.motion_steps=1 out=runs/prior_evaluation", None,
    ),
    ("dexprior sample; dexprior estimate", "sample n=1 motion_steps=1 video_steps=1 out=runs/one", None),
    (
        "dexprior retarget samples", "retarget hand=runs/read/hand.safetensors "
        "samples=runs/samples/samples.safetensors robot=builtin-hand every=8 out=runs/drawn", _read_hands,
    ),
    (
        "dexprior retarget landmarks", "retarget landmarks=SESSION.csv side=right every=3 out=runs/session", _session,
    ),
    ("dexprior collision the whole", f"collision {BASE} {OPPONENTS} data=impacts.npz out=runs/stage", None),
    ("dexprior collision generate", f"collision generate {BASE} out=runs/collision", None),
    ("dexprior collision distill the", f"collision distill {BASE} out=runs/collision", None),
    (
        "dexprior collision distill pairs", "collision distill pairs=[runs/pairs/square] out=runs/one_shape "
        f"{SHAPES}", None,
    ),
    ("dexprior collision identify", f"collision identify data=impacts.npz out=runs/collision {BASE}", None),
    ("dexprior collision finetune", f"collision finetune data=impacts.npz out=runs/collision {BASE}", None),
    (
        "dexprior collision evaluate set=ellipse", "collision evaluate set=ellipse train=impacts.npz "
        f"test=impacts.npz n_real=5 draws=1 out=runs/e.json {BASE} {OPPONENTS}", None,
    ),
    (
        "dexprior collision evaluate set=strikes", f"collision evaluate set=strikes {STRIKES} strikes.settings=[1] "
        f"n_real=5 model=runs/collision/base.safetensors out=runs/s.json {BASE} {OPPONENTS}", None,
    ),
    (
        "dexprior collision plan set=ellipse", "collision plan set=ellipse train=impacts.npz test=impacts.npz n_real=5 "
        f"draws=1 out=runs/chosen.json {BASE} {OPPONENTS}", None,
    ),
    (
        "dexprior collision plan one", "collision plan model=runs/collision/collision.safetensors out=runs/plan1 "
        "plan.target=[0.05,0.0,0.1] plan.search.evaluations=20 plan.search.population=10", None,
    ),
    (
        "dexprior collision plan set=strikes", f"collision plan set=strikes {STRIKES} strikes.settings=[1] n_real=5 "
        "plan.targets=1 plan.repeats=1 plan.search.evaluations=20 plan.search.population=10 "
        f"model=runs/collision/base.safetensors out=runs/p.json {BASE} {OPPONENTS}", None,
    ),
    (
        "dexprior train-policy init", "train-policy init=runs/demo/06-policy out=runs/go_on "
        f"{POLICY} policy.warmup=0", None,
    ),
    (
        "dexprior train-policy init=runs/mine/06-policy policy.warmup=0 family",
        "train-policy init=runs/demo/06-policy out=runs/fed family=late.json sensors=noise-sensors.json "
        f"{POLICY} policy.warmup=0", _learned,
    ),
    (
        "dexprior train-policy data", "train-policy data=runs/plan/train.json out=runs/recorded "
        f"{POLICY} policy.worlds=2", None,
    ),
    (
        "dexprior train-policy task=pick_place", f"train-policy task=pick_place use_prior=false out=runs/cube {POLICY}",
        None,
    ),
    ("dexprior train-policy env=AdroitHandDoorSparse-v1", "", None),
    (
        "dexprior train-policy env=Pendulum-v1", f"train-policy env=Pendulum-v1 gym.kind=sac out=runs/pendulum {GYM}",
        None,
    ),
    (
        "dexprior train-policy task=push", "train-policy task=push push.striker.kind=hybrid out=runs/push_hybrid "
        "push.striker.surrogate=runs/collision/collision.safetensors push.steps=50 push.hidden=[8,8] "
        "push.learning_starts=50 push.checkpoint_every=50", None,
    ),
    ("dexprior build-behavior", f"build-behavior density=mixture out=runs/dense {DENSITY}", None),
    (
        "dexprior study mechanism", "study mechanism out=runs/mechanism mechanism.task=pick_place mechanism.seeds=1 "
        "mechanism.arms=[annealed,none] mechanism.once=[] mechanism.every=1 mechanism.vectors=1 mechanism.scenes=2 "
        f"{POLICY.replace('policy.', 'mechanism.policy.')} mechanism.policy.iterations=2", None,
    ),
    (
        "dexprior study controls", "study controls out=runs/controls controls.seeds=1 controls.scored=4 "
        "controls.arms=[nearest] controls.once=[]", None,
    ),
    ("dexprior study crossover", "", None),
    (
        "dexprior study adroit", "study adroit out=runs/adroit adroit.arms=[bc,kl] adroit.once=[] adroit.off_policy=[] "
        f"adroit.seeds=1 adroit.episodes=2 {GYM.replace('gym.', 'adroit.gym.')}", None,
    ),
    ("dexprior ladder run=runs/demo", "ladder run=runs/demo scored=5 out=runs/ladder", None),
    ("dexprior demo task=peg", "demo preset=smoke task=peg out=runs/peg threads=1", None),
    (
        "dexprior evaluate policy", "evaluate policy=runs/demo/06-policy baseline=runs/demo/08-policy-plain "
        "evaluation.instances=4", None,
    ),
    (
        "dexprior evaluate policy=runs/policy family", "evaluate policy=runs/demo/06-policy family=late.json "
        "phenomena={stribeck:{}} evaluation.instances=4 out=runs/fed_evaluation", _learned,
    ),
    ("dexprior evaluate env=", "", None),
    ("dexprior hardware check", "hardware check out=runs/robot", None),
    ("dexprior hardware home", "hardware home out=runs/robot", None),
    ("dexprior hardware trip", "", None),
    (
        "dexprior evaluate task=push", "evaluate task=push policy=runs/push out=runs/routes routes.runs=1 "
        "routes.segments=[1]", _push_policy,
    ),
    (
        "dexprior ledger fill", "ledger evaluation.instances=8 evaluation.compared=1 evaluation.repeats=128 "
        "out=runs/ledger", None,
    ),
    ("dexprior ledger new", "ledger new runs/r1", None),
    ("dexprior ledger add", "ledger add runs/r1", lambda ws: _fill_round(ws / "runs" / "r1", name="r1")),
    ("dexprior ledger probe", "ledger probe task=wipe out=runs/probe", None),
    ("dexprior ledger compare", "ledger compare runs/r1 runs/round-1 out=runs/both", None),
    ("dexprior ledger plan ROUND", "ledger plan runs/r1 out=runs/plan2", None),
    ("dexprior ledger plan the same", "ledger plan diagnosis=diagnosis.json plan.sim=.9 out=runs/plan3", None),
    ("dexprior ledger plan results", "ledger plan results=runs/plan/trials.csv out=runs/plan", None),
    (
        "dexprior ledger fit-servo", "ledger fit-servo train=servo/train test=servo/test out=runs/servo.json "
        "servo.generations=1 servo.population=8 servo.folds=2", _servo_logs,
    ),
    ("dexprior ledger fit-noise", "ledger fit-noise LOGDIR out=runs/noise.json", None),
    ("dexprior ledger report", "ledger report LOGDIR out=runs/arm2", None),
    ("dexprior ledger lab", "", None),
    ("dexprior ledger update ROUND fit", f"ledger update runs/round-1 out=runs/round-3 {ANSWER}", None),
    ("dexprior ledger update ROUND of", "ledger update runs/lab/round-1 out=runs/lab/other by=recovery", None),
]  # fmt: skip
WITHOUT_HELP = {
    # verbs whose help shows no command, as they have one form
    "train-policy": f"use_prior=false {POLICY}",
    "doctor": "",
}
ELSEWHERE = {"dexprior play task=peg view=true": "a window is needed; tests/envs/tasks/test_playing.py opens one"}


def test_every_command_of_the_documents_has_a_line_here():
    assert documented() == {command for command, _, _ in IN_BLOCKS}


def test_every_line_of_the_help_has_a_line_here():
    left = {line for line in helped() if not any(line.startswith(start) for start, _, _ in IN_HELP)}
    assert {line for line in left if not any(line.startswith(known) for known in ELSEWHERE)} == set()
    unused = [start for start, _, _ in IN_HELP if not any(line.startswith(start) for line in helped())]
    assert not unused


@pytest.fixture(scope="module")
def workspace(smoke_demo, tmp_path_factory):
    """A folder as a user has it after the demo."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copytree(smoke_demo / "run", folder / "runs" / "demo")
    return folder


@pytest.fixture
def inside(workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("XDG_CACHE_HOME", str(workspace / "cache"))
    return workspace


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DEXPRIOR_DATA"), reason="needs $DEXPRIOR_DATA: clips, logs and a bottle")
@pytest.mark.usefixtures("one_thread")
def test_every_command_runs(inside, capfd):
    """One after the other, as each goes on from those before it."""
    (inside / "runs" / "collision").mkdir(parents=True)
    failed = []
    commands = [(shlex.split(f"{command} {small}")[1:], prepare) for command, small, prepare in IN_BLOCKS]
    commands += [(shlex.split(command), prepare) for _, command, prepare in IN_HELP if command]
    commands += [([verb, *shlex.split(small)], None) for verb, small in WITHOUT_HELP.items()]
    for words, prepare in commands:
        if prepare is not None:
            prepare(inside)
        status = main(words)
        out, error = capfd.readouterr()
        if status != 0:
            failed.append((" ".join(words), error[-400:] or out[-400:]))
    assert not failed, json.dumps(failed, indent=1)


# --- programs -------------------------------------------------------------------------------------------------------


def _environment(ws: Path) -> dict[str, object]:
    """An environment of somebody's own, and a model of its collisions."""
    import gymnasium

    from dexprior.collision import ImpulseNetwork, Surrogate, SurrogateConfig

    network = ImpulseNetwork(SurrogateConfig(width=8, depth=1))
    surrogate = Surrogate.from_network(network, np.array([[-9.0, 9.0]] * 4))
    surrogate = dataclasses.replace(surrogate, phi=np.array([0.3, 0.5, 0.001, 1.0, 0.0]))
    surrogate.save(ws / "runs" / "mine" / "collision.safetensors", producer="test", seed=0)
    return {"env": gymnasium.make("Pusher-v5")}


def _scene(ws: Path) -> dict[str, object]:
    from dexprior.envs.panel import Panel
    from dexprior.worlds.tasks import make_task

    return {"panel": Panel.sample("mine", make_task("insertion"), 1, seed=0), "action": np.zeros((1, 7))}


def _groups_of_traces(ws: Path) -> dict[str, object]:
    from dexprior.transfer.divergence import DivergenceConfig, groups_needed

    rng, t = np.random.default_rng(0), np.arange(60) * 0.02

    def trace(late: float = 0.0) -> Trace:
        channels = {
            name: Channel(t=t, t_host=t, value=np.sin(4 * (t - late))[:, None] + 0.05 * rng.normal(size=(60, 1)),
                          unit=unit, frame="-", kind="measured")
            for name, unit in (("joints", "rad"), ("force", "N"), ("slip", "m/s"))
        }  # fmt: skip
        return Trace(channels=channels, panel_hash="p")

    return {"simulated": [[trace()] for _ in range(groups_needed(4, DivergenceConfig()))], "real": [trace(0.1)]}


def _trip(ws: Path) -> dict[str, object]:
    from dexprior.envs.hardware.franka.link import STATE, Link

    (ws / "runs" / "franka").mkdir(parents=True, exist_ok=True)
    Link(ws / "runs" / "franka" / "franka.link", create=True).state.add(STATE.row(t=1.0))
    return {}


def _wiped(ws: Path) -> dict[str, object]:
    from dexprior.transfer.diagnosis import Trial, identified
    from dexprior.transfer.replay import replay, wiping
    from dexprior.worlds.tasks import make_task

    task = make_task("wipe")
    known = identified(task)
    real = replay(wiping(task, seconds=0.8), known, known.medians()[None], repeats=2, seed=1)
    return {"real": real, "trials": [Trial(success=True, phase=None), Trial(success=False, phase="contact")]}


def _cluster(ws: Path) -> dict[str, object]:
    """A job of one process, which is done at once: a stand-in for submitit, which was tried with two."""
    from types import ModuleType, SimpleNamespace

    from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations

    few = TaskDemonstrationConfig(n=6, size=24, cameras=("front",), depth=(), workers=1)
    generate_demonstrations("pick_place", few, ws / "runs" / "pick_place", seed=0)
    module = ModuleType("submitit")
    module.helpers = SimpleNamespace(TorchDistributedEnvironment=lambda: SimpleNamespace(export=lambda **how: None))

    def submit(work, *words):
        status = work(*words)
        return SimpleNamespace(task=lambda k: SimpleNamespace(result=lambda: status))

    module.AutoExecutor = lambda folder: SimpleNamespace(update_parameters=lambda **how: None, submit=submit)
    sys.modules["submitit"] = module
    return {}


PROGRAMS = [
    # document, which block, what makes it small, names that are the reader's own
    ("docs/verbs.md", 0, {'"leap"': '"builtin-hand"'}, _frame),
    ("docs/verbs.md", 1, {}, _environment),
    ("docs/verbs.md", 2, {"num_envs=64": "num_envs=2"}, None),
    ("docs/verbs.md", 3, {}, None),
    ("docs/collection-plan.md", 0, {"runs/plan": "runs/plan_program"}, None),
    ("docs/families.md", 0, {"64,": "2,"}, None),
    ("docs/families.md", 1, {"64,": "2,"}, None),
    ("docs/hardware.md", 0, {'"franka"': '"loopback"'}, None),
    ("docs/hardware.md", 1, {}, _trip),
    ("docs/parameter-families.md", 0, {}, None),
    ("docs/reality-server.md", 0, {}, _scene),
    ("docs/tutorials/your-own-object.md", 0, {}, None),
    ("docs/traces.md", 0, {"run.mcap": "written.mcap"}, None),
    (
        "docs/training-at-scale.md", 0,
        {'"prior.precision=bf16"': ", ".join(f'"{word}"' for word in PRIOR.split())}, _cluster,
    ),
    ("docs/transfer-ledger.md", 0, {}, _groups_of_traces),
    (
        "docs/transfer-ledger.md", 1, {'"wipe"))': '"wipe"), seconds=0.8)', "repeats=5": "repeats=2, null=30, each=4"},
        _wiped,
    ),
]  # fmt: skip
SERVES = ("docs/reality-server.md", 1)
"""A program that serves until it is ended."""


def _programs(path: Path) -> list[str]:
    return blocks(path, "python")


def test_every_program_of_the_documents_has_a_line_here():
    found = [
        (str(path.relative_to(ROOT)), k)
        for path in DOCUMENTS
        if path.name not in WHOLE
        for k in range(len(_programs(path)))
    ]
    assert sorted(found) == sorted([*((name, k) for name, k, _, _ in PROGRAMS), SERVES])


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_every_program_runs(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    names: dict[str, dict[str, object]] = {}
    for document, k, small, own in PROGRAMS:
        program = _programs(ROOT / document)[k]
        for long, short in small.items():
            assert long in program
            program = program.replace(long, short)
        known = names.setdefault(document, {})  # blocks of a page go on from each other
        known |= {} if own is None else own(tmp_path)
        exec(compile(program, f"{document}, program {k}", "exec"), known)


@pytest.mark.slow
def test_the_program_that_serves_is_answered(tmp_path):
    """Somebody's own world behind the socket, as the page shows it."""
    from dexprior.envs.panel import Panel
    from dexprior.envs.reality import RealityBackend
    from dexprior.worlds.tasks import make_task

    program = _programs(ROOT / SERVES[0])[SERVES[1]]
    world = (
        "from dexprior.envs.sim import SimBackend\nfrom dexprior.worlds.tasks import make_task\n"
        "class MyWorld(SimBackend):\n    def __init__(self):\n        super().__init__(make_task('insertion'), 1)\n"
        "        self.values = self.task.family.medians()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", world + program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())
        backend = RealityBackend((address["host"], address["port"]))
        reading = backend.reset(Panel.sample("mine", make_task("insertion"), 1, seed=0))
        assert np.isfinite(reading.tools).all()
        backend.close()
    finally:
        process.kill()
        process.wait()

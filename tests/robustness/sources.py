"""Inputs of every verb that reads what others wrote: made once, whole, and the call that reads them."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from foreign_layouts import make_arctic, make_dexycb, make_ho3d, make_hocap, make_hot3d, picture, write_mano

from dexprior.artifacts import save, write_json
from dexprior.data.clips import write_clip
from dexprior.data.episodes import append_index, write_episode
from dexprior.data.impacts import ELLIPSE_MASS, ELLIPSE_SEMI_AXES, ellipse_inertia, load_impacts, save_impacts
from dexprior.data.motion_capture import import_impacts, read_layout
from dexprior.data.simulated_impacts import simulate_drops
from dexprior.data.tosses import load_cube_tosses
from dexprior.data.traces import export_traces, write_trace
from dexprior.families import Parameter, ParameterFamily
from dexprior.hands import skeleton
from dexprior.pose.landmark_streams import read_landmarks, read_stream
from dexprior.transfer.collection import UNKNOWN, Panel, PlanConfig, plan_collection, write_plan
from dexprior.transfer.rounds import COLUMNS, add_round
from dexprior.transfer.servo import read_published, read_servo_logs
from dexprior.types import Channel, Episode, HandTrajectory, Trace
from dexprior.types.hand import HAND_JOINTS

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One call, and what it reads."""

    make: Callable[[Path], None]
    """Fills a folder."""
    words: tuple[str, ...]
    """The call; {d} is the folder, {o} one for what is written."""
    files: tuple[str, ...]
    """Those that are damaged, relative to the folder."""
    named: str | None = None
    """What a message names instead of the damaged file, e.g. an archive's episode."""
    read: Callable[[Path], object] | None = None
    """Reads the folder where the whole call would take minutes."""
    rest: int = 0
    """Exit status of the call on a damaged file where the rest of a set is still used."""


def _trace(n: int = 60) -> Trace:
    t = np.arange(n) * 0.02
    value = 0.3 * np.sin(np.array([1.3, 0.7]) * t[:, None])
    channels = {
        name: Channel(t=t, t_host=t + 50, value=value, unit="rad", frame="joint", kind=kind)  # type: ignore[arg-type]
        for name, kind in (("command", "commanded"), ("measured", "measured"))
    }
    return Trace(channels=channels, panel_hash="p", info={"joints": ["a", "b"], "events": [[0.5, 50.5, "contact"]]})


def _drops(folder: Path) -> None:
    time, pose = simulate_drops(3, 8, phi=(0.25, 0.2, 0.002, 1.0), noise=(5e-5, 5e-4))
    rows = [(d + 1, *pose[d, k]) for d in range(len(pose)) for k in range(len(time))]
    lines = ["drop,x,z,angle", *(",".join(map(str, row)) for row in rows)]
    (folder / "drops.csv").write_text("\n".join(lines) + "\n")
    body = {
        "shape": "ellipse", "semi_axes": list(ELLIPSE_SEMI_AXES), "mass": ELLIPSE_MASS,
        "inertia": ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS),
    }  # fmt: skip
    layout = {"columns": {"height": "z", "trial": "drop"}, "rate": 250.0, "body": body}
    (folder / "layout.yaml").write_text(yaml.safe_dump(layout))


def _impacts(folder: Path) -> None:
    _drops(folder)
    save_impacts(import_impacts(folder / "drops.csv", read_layout(folder / "layout.yaml"))[0], folder / "impacts.npz")


def _cubes(folder: Path) -> None:
    t = np.arange(20)[:, None] / 148.0
    vel = np.broadcast_to([0.5, 0.0, 0.0], (20, 3)) + [0, 0, -9.81] * t
    pos = np.array([0, 0, 1.0]) + [0.5, 0, 0] * t + 0.5 * np.array([0, 0, -9.81]) * t**2
    omega = np.tile([0.0, 0.0, 2.0], (20, 1))
    quat = np.concatenate([np.cos(t), 0 * t, 0 * t, np.sin(t)], axis=1)
    np.savez(
        folder / "cubes.npz", start=np.array([0, 20]), pos=pos, quat=quat, vel=vel, omega=omega,
        duplicate_group=np.array([0]),
    )  # fmt: skip


def _mcap(folder: Path) -> None:
    write_trace(_trace(), folder / "run.mcap")


def _exported(format: str, name: str, *, bare: bool = False) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        export_traces([_trace()], format, folder / name)
        if bare:
            shutil.rmtree(folder / name / "meta" / "dexprior")

    return make


def _table(folder: Path) -> None:
    t = np.arange(40) * 0.01
    lines = ["t,force.x,force.y,force.z,glow"] + [f"{x},{x},2.0,3.0,{k}" for k, x in enumerate(t)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "layout.yaml").write_text("force: {unit: N, frame: sensor}\nglow: {unit: '1'}\n")


def _round(folder: Path) -> None:
    (folder / "round.yaml").write_text("round: '1'\npolicy: grasp\npanel: kitchen\nfamily: family.json\nnotes: [a]\n")
    rows = [
        {"world": w, "instance": f"{i:03d}", "success": int(i < k), "held": 1, "slip_rate": 0.1, "seconds": 2.5}
        for w, k in (("simulator", 16), ("robot", 12))
        for i in range(20)
    ]
    lines = [",".join(COLUMNS)] + [",".join(str(row.get(c, "")) for c in COLUMNS) for row in rows]
    (folder / "trials.csv").write_text("\n".join(lines) + "\n")
    one = Parameter(name="mass", unit="kg", low=0.1, high=1.0, target="body/block/mass")
    write_json(folder / "family.json", ParameterFamily("one", (one,)).to_json())


def _rounds(folder: Path) -> None:
    for name in ("1", "2"):
        (folder / name).mkdir()
        _round(folder / name)
        path = folder / name / "round.yaml"
        path.write_text(path.read_text().replace("'1'", f"'{name}'"))
        add_round(folder / name)


def _added(folder: Path) -> None:
    _round(folder)
    add_round(folder)


def _diagnosis(folder: Path) -> None:
    (folder / "d.json").write_text(json.dumps({"probabilities": {"contact": 0.5, "environment": 0.45, UNKNOWN: 0.05}}))
    (folder / "p.yaml").write_text("contact_force: {setup_hours: 2.0}\n")


def _campaign(folder: Path) -> None:
    settings = PlanConfig(regulates_force=True, panel=Panel(pairs=40), trust=1.0)
    write_plan(
        plan_collection({"contact": 0.5, "environment": 0.45, UNKNOWN: 0.05}, None, 50.0, None, 0, settings), folder
    )
    with (folder / "trials.csv").open() as stream:
        rows = list(csv.reader(stream))
    head = [cell.split(" ")[0] for cell in rows[0]]
    for row in rows[1:]:
        row[head.index("success")], row[head.index("abort")] = "1", "none"
    with (folder / "filled.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def _bench(folder: Path) -> None:
    goal = np.sin(2 * np.pi * np.arange(240) * 0.005)
    rows = [
        {"timestamp": k * 0.005, "position": 0.9 * float(g), "goal_position": float(g), "speed": 0.0,
         "torque_enable": True, "input_volts": 7.3, "temp": 31.0}
        for k, g in enumerate(goal)
    ]  # fmt: skip
    for name in ("train", "test"):
        (folder / name).mkdir()
        data = {"mass": 0.49, "length": 0.1, "kp": 400, "vin": 7.4, "dt": 0.005, "entries": rows}
        (folder / name / "log.json").write_text(json.dumps(data))
    m1 = {"kt": 0.36, "R": 2.8, "armature": 0.0018, "q_offset": 0.02, "friction_base": 0.02, "friction_viscous": 0.005}
    (folder / "m1.json").write_text(json.dumps(m1))


def _read_bench(folder: Path) -> None:
    read_servo_logs(folder / "train")
    read_servo_logs(folder / "test")
    read_published(folder / "m1.json")


def _arm_lines(n: int = 300) -> list[str]:
    t = np.arange(n) * 0.02
    values = np.column_stack([t, 0.3 * np.sin(1.3 * t), 0.3 * np.sin(1.3 * (t - 0.1))])
    return ["t,a_command,a_measured", *(",".join(repr(float(v)) for v in row) for row in values)]


def _arm(folder: Path) -> None:
    (folder / "logs").mkdir()
    (folder / "logs" / "run.csv").write_text("\n".join(_arm_lines()) + "\n")


def _arm_folder(folder: Path) -> None:
    motion = folder / "logs" / "motion"
    motion.mkdir(parents=True)
    (motion / "joint_list.txt").write_text("a\n")
    for name, column in (("control", 1), ("state_motor", 2)):
        rows = [line.split(",") for line in _arm_lines()[1:]]
        lines = ["type,timestamp,positions", *(f'X,{float(r[0]) * 1e6},"[{r[column]}]"' for r in rows)]
        (motion / f"{name}.csv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def _still(folder: Path) -> None:
    rng = np.random.default_rng(0)
    columns = ["t", "fx", "fy", "fz", "tx", "ty", "tz"]
    values = np.column_stack([np.arange(1500) * 0.01, rng.normal(scale=0.05, size=(1500, 6))])
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in values.tolist())]
    (folder / "ft.csv").write_text("\n".join(lines) + "\n")


def _hand(folder: Path) -> None:
    save(_examples()[HandTrajectory], folder / "hand.safetensors", producer="test")


def _read_hand(folder: Path) -> object:
    from dexprior.artifacts import load

    return load(folder / "hand.safetensors", HandTrajectory)


def _bending(n: int = 40) -> np.ndarray:
    fingers = np.zeros((n, 15, 3))
    fingers[:, :, 1] = 0.5 * np.linspace(0, 1, n)[:, None]
    wrist = np.tile([0.1, 0, 0.2, 1, 0, 0, 0], (n, 1)).astype(float)
    return skeleton.forward(wrist, fingers.reshape(n, 45), np.zeros(10))


def _clip(folder: Path, name: str = "clip.mp4") -> None:
    write_clip(folder / name, np.stack([picture(k % 8) for k in range(40)]), 20.0)


def _landmarks(folder: Path) -> None:
    _clip(folder)
    np.savez(folder / "l.npz", joints=_bending(), fps=20.0, hand="right")


def _streams(folder: Path) -> None:
    joints, t = _bending(), np.arange(len(_bending())) / 20
    np.savez(folder / "s.npz", joints=joints, t=t, hand="right")
    columns = [f"{name}_{axis}" for name in HAND_JOINTS for axis in "xyz"]
    rows = [f"{time:.3f}," + ",".join(f"{x:.4f}" for x in frame.ravel()) for time, frame in zip(t, joints)]
    (folder / "s.csv").write_text("\n".join([",".join(["t", *columns]), *rows]) + "\n")
    lines = [{"t": time, "hand": "right", "joints": frame.tolist()} for time, frame in zip(t.tolist(), joints)]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


def _episodes(folder: Path) -> None:
    for number in range(2):
        write_episode(folder, number, _examples(number)[Episode], producer="test")
        append_index(folder, {"number": number, "kept": True})


def _examples(seed: int = 0) -> dict:
    spec = importlib.util.spec_from_file_location("examples", Path(__file__).parents[1] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_examples(seed=seed)


def _videox(folder: Path) -> None:
    _clip(folder, "a.mp4")
    _clip(folder, "b.mp4")
    rows = [{"file_path": f"{k}.mp4", "text": "a hand.", "type": "video"} for k in "ab"]
    (folder / "metadata.json").write_text(json.dumps(rows))


def _recording(folder: Path) -> None:
    root = folder / "one"
    root.mkdir()
    _clip(root, "video.mp4")
    np.savez(root / "landmarks.npz", joints=_bending(), fps=20.0, hand="right")
    pose = np.tile([0.2, 0, 0.2, 1, 0, 0, 0], (40, 1)).astype(float)
    np.savez(root / "object.npz", pose=pose, name="box")
    (root / "episode.yaml").write_text("text: press\nlicence: CC0-1.0\n")
    camera = {"fx": 50.0, "fy": 50.0, "cx": 31.0, "cy": 23.0}
    np.savez(root / "camera.npz", pose=np.tile([0.0, 0, 0, 1, 0, 0, 0], (40, 1)))
    (root / "camera.yaml").write_text(yaml.safe_dump(camera))
    lines = ["t,fx,fy,fz,tx,ty,tz"] + [f"{k * 0.01},0,0,1,0,0,0" for k in range(-20, 240)]
    (root / "wrench.csv").write_text("\n".join(lines) + "\n")


def _foreign(make: Callable[..., object], **options: object) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        make(folder, write_mano(folder / "mano"), **options)

    return made


def _lerobot_v2(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = {"action": {"dtype": "float32", "shape": [2], "names": ["a", "b"]}}
    info = {
        "codebase_version": "v2.1", "fps": 20, "features": features, "chunks_size": 1000,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet", "video_path": None,
    }  # fmt: skip
    (folder / "meta").mkdir()
    (folder / "data" / "chunk-000").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    lines = [json.dumps({"episode_index": k, "tasks": ["fold"], "length": 10}) for k in range(2)]
    (folder / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "meta" / "tasks.jsonl").write_text('{"task_index": 0, "task": "fold"}\n')
    for k in range(2):
        table = pa.table({"action": [[0.1 * i, 1.0] for i in range(10)], "task_index": [0] * 10})
        pq.write_table(table, folder / "data" / "chunk-000" / f"episode_{k:06d}.parquet")


IMPORT = ("data", "import")
_DATA = "data/chunk-000"
SOURCES: dict[str, Source] = {
    "motion capture": Source(
        make=_drops, files=("drops.csv", "layout.yaml"),
        words=(*IMPORT, "recording={d}/drops.csv", "layout={d}/layout.yaml", "out={o}/o.npz"),
    ),
    "impacts": Source(
        make=_impacts, files=("impacts.npz",), read=lambda d: load_impacts(d / "impacts.npz"),
        words=("collision", "evaluate", "train={d}/impacts.npz", "test={d}/impacts.npz", "out={o}/r.json"),
    ),
    "tosses": Source(
        make=_cubes, files=("cubes.npz",), read=lambda d: load_cube_tosses(d / "cubes.npz"),
        words=("collision", "evaluate", "set=cube", "train={d}/cubes.npz", "test={d}/cubes.npz", "out={o}/r.json"),
    ),
    "trace": Source(make=_mcap, files=("run.mcap",), words=("data", "inspect", "traces={d}/run.mcap")),
    "trace out": Source(
        make=_mcap, files=("run.mcap",), words=("data", "export", "traces={d}/run.mcap", "format=csv", "out={o}/x"),
    ),
    "trace of tables": Source(
        make=_exported("csv", "t"), named="/t", files=("t/trace.json", "t/command.csv", "t/events.csv"),
        words=(*IMPORT, "traces={d}/t", "format=csv", "out={o}/r.mcap"),
    ),
    "trace of one table": Source(
        make=_table, files=("table.csv", "layout.yaml"),
        words=(*IMPORT, "traces={d}/table.csv", "format=csv", "layout={d}/layout.yaml", "out={o}/r.mcap"),
    ),
    "trace of LeRobot": Source(
        make=_exported("lerobot", "s", bare=True), named="/s",
        files=("s/meta/info.json", f"s/{_DATA}/file-000.parquet"),
        words=(*IMPORT, "traces={d}/s", "format=lerobot", "out={o}/r.mcap"),
    ),
    "trace of robomimic": Source(
        make=_exported("robomimic", "a.hdf5"), files=("a.hdf5",), named="a.hdf5",
        words=(*IMPORT, "traces={d}/a.hdf5", "format=robomimic", "out={o}/r.mcap"),
    ),
    "trace of ROS": Source(
        make=_exported("rosbag", "a.bag"), files=("a.bag",),
        words=(*IMPORT, "traces={d}/a.bag", "format=rosbag", "out={o}/r.mcap"),
    ),
    "round": Source(make=_round, files=("round.yaml", "trials.csv", "family.json"), words=("ledger", "add", "{d}")),
    "rounds": Source(
        make=_rounds, files=("1/ledger.json",), words=("ledger", "compare", "{d}/1", "{d}/2", "out={o}/c"),
    ),
    "plan": Source(
        make=_diagnosis, files=("d.json", "p.yaml"),
        words=("ledger", "plan", "diagnosis={d}/d.json", "protocols={d}/p.yaml", "plan.budget=40", "out={o}/p"),
    ),
    "plan of a round": Source(
        make=_added, files=("ledger.json", "diagnosis.json"), words=("ledger", "plan", "{d}", "out={o}/p"),
    ),
    "campaign": Source(
        make=_campaign, files=("plan.json", "filled.csv"),
        words=("ledger", "plan", "results={d}/filled.csv", "out={d}"),
    ),
    "servo": Source(
        make=_bench, files=("train/log.json", "m1.json"), read=_read_bench,
        words=(
            "ledger", "fit-servo", "train={d}/train", "test={d}/test", "published={d}/m1.json", "out={o}/r.json",
        ),
    ),
    "arm": Source(make=_arm, files=("logs/run.csv",), words=("ledger", "report", "{d}/logs", "out={o}/r")),
    "arm's folder": Source(
        make=_arm_folder, files=("logs/motion/control.csv.gz", "logs/motion/joint_list.txt"),
        words=("ledger", "report", "{d}/logs", "out={o}/r"), named="motion",
    ),
    "sensor": Source(make=_still, files=("ft.csv",), words=("ledger", "fit-noise", "{d}/ft.csv", "out={o}/n.json")),
    "hand": Source(
        make=_hand, files=("hand.safetensors",), read=_read_hand,
        words=("retarget", "hand={d}/hand.safetensors", "out={o}/r"),
    ),
    "landmarks": Source(
        make=_landmarks, files=("l.npz", "clip.mp4"), read=lambda d: read_landmarks(d / "l.npz"),
        words=("estimate-pose", "video={d}/clip.mp4", "landmarks={d}/l.npz", "out={o}/p"),
    ),
    **{
        f"landmark stream {kind}": Source(
            make=_streams, files=(f"s.{kind}",), read=lambda d, kind=kind: read_stream(d / f"s.{kind}", side="right"),
            words=("retarget", f"landmarks={{d}}/s.{kind}", "side=right", "every=60", "out={o}/r"),
        )
        for kind in ("csv", "jsonl", "npz")
    },
    "episodes": Source(
        make=_episodes, files=("index.jsonl",), named="/d", words=("data", "inspect", "source={d}", "out={o}/i"),
    ),
    "checked episodes": Source(
        make=_episodes, files=("000000.safetensors", "000001.mp4"), named="00000", rest=1,
        words=("data", "validate", "source={d}"),
    ),
    "VideoX-Fun": Source(
        make=_videox, files=("metadata.json",), words=(*IMPORT, "kind=videox-fun", "source={d}", "out={o}/e"),
    ),
    "recording": Source(
        make=_recording, named="one",
        files=(
            "one/landmarks.npz", "one/object.npz", "one/episode.yaml", "one/camera.yaml", "one/camera.npz",
            "one/wrench.csv",
        ),
        words=(*IMPORT, "kind=recording", "source={d}", "out={o}/e"),
    ),
    "LeRobot v2": Source(
        make=_lerobot_v2, files=("meta/info.json", "meta/episodes.jsonl", f"{_DATA}/episode_000001.parquet"),
        words=(*IMPORT, "kind=lerobot", "source={d}", "out={o}/e"), named="",
    ),
    "DexYCB": Source(
        make=_foreign(make_dexycb, sequences=1), words=(*IMPORT, "kind=dexycb", "source={d}", "out={o}/e"), named="",
        files=("20200709-subject-01/20200709_141750/meta.yml", "20200709-subject-01/20200709_141750/pose.npz"),
    ),
    "HO-Cap": Source(
        make=_foreign(make_hocap), words=(*IMPORT, "kind=hocap", "source={d}", "out={o}/e"), named="",
        files=("subject_1/20231025_165502/meta.yaml", "subject_1/20231025_165502/poses_o.npy"),
    ),
    "HO-3D": Source(
        make=_foreign(make_ho3d), words=(*IMPORT, "kind=ho3d", "source={d}", "out={o}/e"), named="ABF10",
        files=("train/ABF10/meta/0001.pkl",),
    ),
    "ARCTIC": Source(
        make=_foreign(make_arctic), words=(*IMPORT, "kind=arctic", "source={d}", "out={o}/e"), named="box_grab_01",
        files=("raw_seqs/s01/box_grab_01.mano.npy", "raw_seqs/s01/box_grab_01.object.npy"),
    ),
    "HOT3D": Source(
        make=_foreign(make_hot3d), words=(*IMPORT, "kind=hot3d", "source={d}", "out={o}/e"), named="clip-001849",
        files=("train_aria/clip-001849.tar",),
    ),
}  # fmt: skip

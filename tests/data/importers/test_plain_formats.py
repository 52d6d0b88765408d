"""VideoX-Fun, robomimic, a user's own recordings and DexMV: round trips, and broken copies."""

from __future__ import annotations

import dataclasses
import json
import os
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from foreign_layouts import HEIGHT, WIDTH, picture, write_box

from dexprior.cli.main import main
from dexprior.data.clips import write_clip
from dexprior.data.importers import Imported, ImportSettings, Rejected, import_episodes, to_episode
from dexprior.data.importers.table import IMPORTERS
from dexprior.data.stacks import stack_episodes
from dexprior.data.traces import ChannelLayout, import_trace
from dexprior.errors import BadInput, MissingExtra
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.geometry.transforms import matrix_from_pose
from dexprior.hands import skeleton

ROOT = os.environ.get("DEXPRIOR_DATA")
needs_data = pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_object, hand_clip)")
N, FPS = 40, 20.0
T = np.arange(N) / FPS


def video(path: Path, frames: int = N, fps: float = FPS) -> Path:
    return write_clip(path, np.stack([picture(k % 8) for k in range(frames)]), fps, crf=5)


def variable_rate(path: Path) -> Path:
    """An mp4 whose frames last one or three steps."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        stream.options = {"bf": "0"}
        stream.time_base = Fraction(1, 30)
        stamp = 0
        for k in range(20):
            frame = av.VideoFrame.from_ndarray(picture(k % 8), format="rgb24")
            frame.pts, frame.time_base = stamp, Fraction(1, 30)
            stamp += 3 if k % 5 == 0 else 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def cut(path: Path, share: float = 0.5) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


# --- VideoX-Fun ------------------------------------------------------------------------------------------------


def make_videox(root: Path, rows: list[dict]) -> Path:
    root.mkdir(exist_ok=True)
    for name in {row["file_path"] for row in rows} | {r["control_file_path"] for r in rows if "control_file_path" in r}:
        if not (root / name).exists() and name.endswith(".mp4"):
            video(root / name, 8)
    (root / "metadata.json").write_text(json.dumps(rows))
    return root


def test_videox_fun(tmp_path):
    rows = [
        {"file_path": "train/1.mp4", "text": "a hand folds a shirt.", "type": "video", "width": WIDTH,
         "height": HEIGHT},
        {"file_path": "train/2.mp4", "text": "tea", "type": "video", "width": 10, "height": 10,
         "control_file_path": "control/2.mp4"},
        {"file_path": "train/3.jpg", "text": "no type is an image"},
    ]  # fmt: skip
    settings = ImportSettings(licence="CC0-1.0")
    first, second, third = import_episodes("videox-fun", make_videox(tmp_path / "set", rows), settings=settings)
    assert first.text == ("a hand folds a shirt.",)
    assert (first.licence, first.problems) == ("CC0-1.0", ())
    assert np.abs(first.views[0].read(None, 2, 5).astype(float) - [picture(k) for k in (2, 3, 4)]).mean() < 2
    assert [view.name for view in second.views] == ["video", "control"]
    assert second.problems == (f"metadata says 10 x 10 pixels, the video has {WIDTH} x {HEIGHT}",)
    assert isinstance(third, Rejected)
    assert "type = 'image'" in third.reason


def test_videox_fun_broken(tmp_path):
    rows = [{"file_path": f"{k}.mp4", "text": "x", "type": "video"} for k in range(4)]
    root = make_videox(tmp_path / "set", rows)
    cut(root / "0.mp4")
    (root / "1.mp4").unlink()
    variable_rate(root / "2.mp4")
    found = list(import_episodes("videox-fun", root))
    assert [f.episode for f in found] == ["0:0.mp4", "1:1.mp4", "2:2.mp4", "3:3.mp4"]
    assert "truncated" in found[0].reason
    assert "no clip at" in found[1].reason
    assert "has a variable frame rate: frame 0 is shown for 100.0 ms" in found[2].reason
    assert isinstance(found[3], Imported)


# --- robomimic -------------------------------------------------------------------------------------------------


def make_robomimic(path: Path, *, rate: float | None = 20.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    quat = quat_from_axis_angle(rng.standard_normal((8, 3)))
    truth = {"actions": rng.standard_normal((8, 7)), "quat": quat, "pos": rng.standard_normal((8, 3))}
    frames = np.stack([picture(k) for k in range(8)])
    kwargs = {} if rate is None else {"control_freq": rate}
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = 24
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": kwargs})
        for k in (0, 1, 10):
            demo = data.create_group(f"demo_{k}")
            demo.attrs["num_samples"] = 8
            demo.attrs["model_file"] = "<mujoco/>"
            demo["actions"] = truth["actions"] + k
            demo["states"] = np.zeros((8, 32))
            demo["rewards"] = np.arange(8) == 7
            demo["dones"] = np.arange(8) == 7
            demo["obs/robot0_eef_pos"] = truth["pos"]
            demo["obs/robot0_eef_quat"] = quat[:, [1, 2, 3, 0]]
            demo["obs/agentview_image"] = frames
        file["mask/train"] = np.array([b"demo_0", b"demo_10"])
    return truth


def test_robomimic(tmp_path):
    truth = make_robomimic(tmp_path / "lift.hdf5")
    found = list(import_episodes("robomimic", tmp_path))
    assert [f.episode for f in found] == [f"lift.hdf5/demo_{k}" for k in (0, 1, 10)]
    first = found[0]
    np.testing.assert_array_equal(first.signals["action"].value, truth["actions"])
    assert first.signals["action"].kind == "commanded"
    np.testing.assert_allclose(first.signals["obs.robot0_eef_quat"].value, truth["quat"])  # scalar first
    assert first.signals["obs.robot0_eef_pos"].unit == "m"
    np.testing.assert_allclose(np.diff(first.signals["action"].t), 1 / 20)
    assert first.views[0].name == "agentview"
    np.testing.assert_array_equal(first.views[0].read(None, 3, 5), [picture(3), picture(4)])
    assert first.views[0].read((24, 32), 0, 8).shape == (8, 24, 32, 3)
    assert [f.ids["splits"] for f in found] == [["train"], [], ["train"]]
    assert {"hand", "object"} <= set(first.absent)


def test_pictures_of_robomimic_are_what_they_are_whatever_they_are_called(tmp_path):
    make_robomimic(tmp_path / "lift.hdf5")
    frames = np.stack([picture(k) for k in range(8)])
    grey, alpha = frames[..., :1], np.concatenate([frames, frames[..., :1]], axis=-1)
    with h5py.File(tmp_path / "lift.hdf5", "a") as file:
        obs = file["data/demo_0/obs"]
        obs["agentview"] = frames[::-1]
        obs["table_cam"], obs["wrist_rgb"] = np.moveaxis(frames, -1, 1), alpha
        obs["rig/top"], obs["rig/state/q"] = grey, np.arange(16.0).reshape(8, 2)
        obs["depth"], obs["maps"] = np.zeros((8, HEIGHT, WIDTH), np.float32), np.zeros((8, HEIGHT, WIDTH, 3))
        obs["points"], obs["short"] = np.arange(48.0).reshape(8, 2, 3), np.zeros((5, 2))
        obs["words"] = np.array([b"a"] * 8)
    first = next(iter(import_episodes("robomimic", tmp_path)))
    views = {view.name: view for view in first.views}
    assert set(views) == {"agentview_image", "agentview", "table_cam", "wrist_rgb", "rig.top"}
    for name in ("agentview_image", "table_cam", "wrist_rgb"):
        np.testing.assert_array_equal(views[name].read(None, 2, 4), frames[2:4], err_msg=name)
    np.testing.assert_array_equal(views["rig.top"].read(None, 2, 4), np.repeat(grey[2:4], 3, axis=-1))
    assert views["table_cam"].read((24, 32), 0, 8).shape == (8, 24, 32, 3)
    widths = {name: signal.value.shape[1] for name, signal in first.signals.items()}
    assert widths == {
        "action": 7, "obs.robot0_eef_pos": 3, "obs.robot0_eef_quat": 4, "obs.rig.state.q": 2, "obs.points": 6,
    }  # fmt: skip
    said = " ".join(first.problems)
    for left in ("obs.depth holds float32", "obs.maps holds float64", "obs.short has 5 rows for 8 actions", "'words'"):
        assert left in said
    trace = import_trace(tmp_path / "lift.hdf5", "robomimic", episode="lift.hdf5/demo_0")
    assert "pictures are left out: agentview, agentview_image, rig.top" in " ".join(trace.info["notes"])


def test_the_order_of_quaternions_is_known_or_asked_for(tmp_path):
    truth = make_robomimic(tmp_path / "other.hdf5")["quat"]
    stored = truth[:, [1, 2, 3, 0]]
    with h5py.File(tmp_path / "other.hdf5", "a") as file:
        file["data"].attrs["env_args"] = json.dumps({"env_name": "Lab", "type": 2, "env_kwargs": {"control_freq": 20}})
    for order, expected in ((None, stored), ("xyzw", truth), ("wxyz", stored)):
        found = next(iter(import_episodes("robomimic", tmp_path, settings=ImportSettings(quaternions=order))))
        np.testing.assert_allclose(found.signals["obs.robot0_eef_quat"].value, expected)
        asked = [p for p in found.problems if "obs.robot0_eef_quat: whether quaternions are wxyz or xyzw" in p]
        assert len(asked) == (order is None)
    layout = {"turn": ChannelLayout(source="obs.robot0_eef_quat", quaternion="xyzw")}
    trace = import_trace(tmp_path / "other.hdf5", "robomimic", episode="other.hdf5/demo_0", layout=layout)
    np.testing.assert_allclose(trace["turn"].value, truth)


def test_a_missing_package_is_no_fault_of_an_episode(tmp_path, monkeypatch, capsys):
    """It ends the import; an import of which nothing could be used ends with another status than one that worked."""
    make_robomimic(tmp_path / "lift.hdf5", rate=None)
    arguments = [
        "data",
        "import",
        "kind=robomimic",
        f"source={tmp_path}",
        f"out={tmp_path / 'out'}",
        "imports.licence=X",
    ]

    def absent(*_):
        raise MissingExtra("Open3D cannot be loaded")

    monkeypatch.setitem(IMPORTERS, "robomimic", dataclasses.replace(IMPORTERS["robomimic"], read=absent))
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "Open3D cannot be loaded" in shown.err
    assert "rejected" not in shown.out

    def broken(*_):
        raise BadInput("no frames")

    monkeypatch.setitem(IMPORTERS, "robomimic", dataclasses.replace(IMPORTERS["robomimic"], read=broken))
    assert main(arguments) == 1
    assert capsys.readouterr().out.count("rejected lift.hdf5/demo_") == 3


def test_robomimic_broken(tmp_path):
    path = tmp_path / "lift.hdf5"
    make_robomimic(path, rate=None)
    with h5py.File(path, "a") as file:
        file["data/demo_0"].attrs["num_samples"] = 9
        del file["data/demo_1/actions"]
        file["data/demo_10/obs/robot0_eef_pos"][2] = np.nan
    first, second, third = import_episodes("robomimic", tmp_path)
    assert "num_samples = 9, but there are 8 actions" in first.reason
    assert "holds no 'actions'" in second.reason
    assert "obs.robot0_eef_pos holds values that are not finite and is left out" in third.problems
    assert "obs.robot0_eef_quat" in third.signals
    assert any("control_freq" in p for p in third.problems)
    make_robomimic(tmp_path / "second.hdf5")
    cut(path, 0.3)
    found = list(import_episodes("robomimic", tmp_path))
    assert [isinstance(f, Imported) for f in found] == [False, True, True, True]
    assert "lift.hdf5 is not an HDF5 file, or it is truncated" in found[0].reason


# --- a user's own recordings --------------------------------------------------------------------------------------


def bending(side: str = "right") -> np.ndarray:
    """Joints of a hand that reaches and closes."""
    fingers = np.zeros((N, 15, 3))
    fingers[:, :12, 2] = np.linspace(0.3, 0.7, N)[:, None]
    wrist = np.tile([0.0, 0.0, 0.4, 1.0, 0, 0, 0], (N, 1))
    wrist[:, 0] = 0.05 * np.sin(T)
    joints = skeleton.forward(wrist, fingers.reshape(N, 45))
    return joints * ([-1.0, 1, 1] if side == "left" else [1.0, 1, 1])


def squeeze(t: np.ndarray) -> np.ndarray:
    """A force with two unequal presses [N]."""
    return 4 * np.exp(-(((t - 0.6) / 0.12) ** 2)) + 7 * np.exp(-(((t - 1.3) / 0.08) ** 2))


def make_recording(root: Path, *, shift: float = 0.0, notes: dict | None = None, **landmarks) -> Path:
    root.mkdir(parents=True)
    video(root / "video.mp4")
    force = np.zeros((N, 5))
    force[:, 0] = squeeze(T)
    fields = {"joints": bending(), "fps": FPS, "hand": "right", "force": force, "contact": (force > 0.5).astype(float)}
    np.savez(root / "landmarks.npz", **{k: v for k, v in (fields | landmarks).items() if v is not None})
    if notes is not None:
        (root / "episode.yaml").write_text(yaml.safe_dump(notes))
    camera = {"fx": 60.0, "fy": 60.0, "cx": 31.5, "cy": 23.5, "T_base_cam": np.eye(4).tolist()}
    (root / "camera.yaml").write_text(yaml.safe_dump(camera))
    pose = np.tile([0.05, 0, 0.4, 1.0, 0, 0, 0], (N, 1))
    np.savez(root / "object.npz", pose=pose, name="strawberry")
    write_box(root / "mesh.obj", (0.03, 0.03, 0.03))
    clock = np.arange(-0.5, T[-1] + 0.8, 0.002)
    wrench = np.zeros((len(clock), 6))
    wrench[:, 2] = squeeze(clock)
    wrench[:, 3] = 0.01 * clock
    rows = ["t, fx, fy, fz, tx, ty, tz"]
    rows += [",".join(f"{v:.6f}" for v in (t - shift, *w)) for t, w in zip(clock, wrench)]
    (root / "wrench.csv").write_text("\n".join(rows))
    return root


def make_moving(root: Path) -> np.ndarray:
    """Give a recording a camera that moves; returns its path, (frame, 4, 4)."""
    pose = np.tile([0.0, 0, 0, 1, 0, 0, 0], (N, 1))
    pose[:, 0] = 0.01 * np.arange(N)
    pose[:, 3:] = quat_from_axis_angle(np.outer(np.arange(N), [0.0, 0.01, 0.002]))
    np.savez(root / "camera.npz", pose=pose)
    camera = yaml.safe_load((root / "camera.yaml").read_text())
    del camera["T_base_cam"]
    (root / "camera.yaml").write_text(yaml.safe_dump(camera))
    return matrix_from_pose(pose)


def test_a_video_and_a_folder_of_one_name_are_two_recordings(tmp_path, fit):
    make_recording(tmp_path / "one")
    video(tmp_path / "one.mp4")
    np.savez(tmp_path / "one.npz", joints=bending("left"), fps=FPS, hand="left")
    folder, alone = import_episodes("recording", tmp_path, fit=fit)
    assert (folder.episode, alone.episode) == ("one", "one.mp4")
    assert ([h.side for h in folder.hands], [h.side for h in alone.hands]) == (["right"], ["left"])


def test_a_recording_of_a_camera_that_moves(tmp_path, fit):
    root = make_recording(tmp_path / "one")
    path = make_moving(root)
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    np.testing.assert_allclose(to_episode(found).sample.camera.T_base_cam, path, atol=1e-12)
    np.savez(root / "camera.npz", pose=np.load(root / "camera.npz")["pose"][1:])
    (short,) = import_episodes("recording", tmp_path, fit=fit)
    assert "camera 'video': 40 frames, but its camera moves through 39 poses" in short.reason
    camera = yaml.safe_load((root / "camera.yaml").read_text()) | {"T_base_cam": np.eye(4).tolist()}
    (root / "camera.yaml").write_text(yaml.safe_dump(camera))
    (both,) = import_episodes("recording", tmp_path, fit=fit)
    assert "holds T_base_cam of a camera that stands still, and camera.npz poses of one that moves" in both.reason


def test_a_recording_becomes_a_complete_episode(tmp_path, fit):
    notes = {"text": "squeeze the strawberry", "licence": "CC-BY-4.0"}
    make_recording(tmp_path / "one", notes=notes)
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert found.absent == ()
    episode = to_episode(found)
    np.testing.assert_allclose(episode.sample.hand.joints, bending(), atol=1e-12)
    np.testing.assert_allclose(episode.sample.hand.force[:, 0], squeeze(T))
    assert episode.info["not_recorded"] == []
    assert episode.condition.text == "squeeze the strawberry"
    # two presses of the thumb, by when the contact rises and falls
    assert episode.sample.contact.finger == ("thumb", "thumb")
    np.testing.assert_allclose(episode.sample.contact.t_on, [0.45, 1.2], atol=0.06)
    # forces are averaged over a frame: within half a frame of the truth's slope
    np.testing.assert_allclose(episode.wrench.wrench[:, 2], squeeze(T), atol=0.6)
    assert np.abs(episode.wrench.wrench[:, 2] - squeeze(T)).mean() < 0.1


@pytest.mark.parametrize("shift", [-0.3, 0.137])
def test_forces_are_synchronised_by_cross_correlation(shift, tmp_path, fit):
    make_recording(tmp_path / "one", shift=shift, notes={"wrench": {"synchronise": "force"}})
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert isinstance(found, Imported), found.reason
    np.testing.assert_allclose(found.wrench.wrench[:, 2], squeeze(T), atol=0.6)
    told = next(p for p in found.problems if "by cross-correlation" in p)
    assert abs(float(told.split()[4]) - shift) < 0.004


def test_a_clock_offset_is_taken_as_given(tmp_path, fit):
    make_recording(tmp_path / "one", shift=0.25, notes={"wrench": {"offset": 0.25}})
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert np.abs(found.wrench.wrench[:, 2] - squeeze(T)).mean() < 0.1


def test_landmarks_in_millimetres_when_said(tmp_path, fit):
    make_recording(tmp_path / "one", joints=1000 * bending(), notes={"unit": "mm"})
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    np.testing.assert_allclose(found.hands[0].joints, bending(), atol=1e-9)


def nan_joints(frame: int | slice) -> np.ndarray:
    joints = bending()
    joints[frame] = np.nan
    return joints


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joints": 1000 * bending()}, "joints are in millimetres, divide them by 1000"),
        ({"hand": "left"}, "labelled wrongly|landmarks are a right hand's, or mirrored"),
        ({"joints": bending("left")}, "labelled wrongly|landmarks are a left hand's, or mirrored"),
        ({"hand": "both"}, "hand = 'both'; choices: left, right"),
        ({"joints": nan_joints(slice(None))}, "no frame of the landmarks is finite"),
        (
            {"joints": bending()[:30], "force": None, "contact": None},
            r"object.npz: pose has shape \(40, 7\), expected \(30, 7\)",
        ),
        ({"fps": 30.0}, r"has 30 frames a second, video.mp4 has 20"),
        ({"joints": None}, "holds no 'joints'"),
        ({"notes": {"licence": 3}}, "episode.yaml.licence = 3"),
        ({"notes": {"txt": "x"}}, "unknown key. Did you mean 'text'"),
    ],
)
def test_a_wrong_recording_is_named_and_the_next_is_read(options, message, tmp_path, fit):
    make_recording(tmp_path / "a_wrong", **options)
    make_recording(tmp_path / "b_right")
    wrong, right = import_episodes("recording", tmp_path, fit=fit)
    assert isinstance(wrong, Rejected)
    assert wrong.episode == "a_wrong"
    with pytest.raises(BadInput, match=message):
        raise BadInput(wrong.reason)
    assert isinstance(right, Imported)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: cut(root / "video.mp4"), "truncated"),
        (lambda root: variable_rate(root / "video.mp4"), "has a variable frame rate"),
        (lambda root: (root / "video.mp4").write_bytes(b""), "is empty"),
        (lambda root: cut(root / "landmarks.npz"), "truncated or damaged"),
        (
            lambda root: video(root / "video.mp4", 30),
            "streams differ in length: camera video has 30 frames, right hand has 40",
        ),
        (lambda root: (root / "wrench.csv").write_text("t,fx\n0,1"), "expected the columns"),
        (
            lambda root: (root / "wrench.csv").write_text("t,fx,fy,fz,tx,ty,tz\n0,1,1,1,1,1,x\n"),
            "tz is 'x', not a number",
        ),
        (
            lambda root: (root / "wrench.csv").write_text("t,fx,fy,fz,tx,ty,tz\n0,1,1,1,1,1,1\n1,1,1,1,1,1,1"),
            "do not cover",
        ),
    ],
)
def test_a_spoilt_file_is_named(spoil, message, tmp_path, fit):
    spoil(make_recording(tmp_path / "one"))
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert isinstance(found, Rejected)
    with pytest.raises(BadInput, match=message):
        raise BadInput(found.reason)


def test_without_a_camera_the_episode_is_incomplete(tmp_path, fit):
    (make_recording(tmp_path / "one") / "camera.yaml").unlink()
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert found.absent == ("calibration", "text")
    with pytest.raises(BadInput, match="one lacks calibration: it is no complete episode"):
        to_episode(found)


def test_without_mesh_and_touch_it_trains_what_it_knows(tmp_path, fit):
    """A ball around the object's frame stands for its surface, and says so; contact and force teach nothing."""
    root = make_recording(tmp_path / "one", contact=None, force=None)
    (root / "mesh.obj").unlink()
    (root / "wrench.csv").unlink()
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    episode = to_episode(found)
    assert {"mesh", "touch", "wrench"} <= set(episode.info["not_recorded"])
    away = np.linalg.norm(episode.condition.cloud[:, :3] - episode.sample.object.pose[0, :3], axis=1)
    np.testing.assert_allclose(away, 0.02)
    assert episode.condition.target_at == pytest.approx((N - 1) / FPS)  # nobody knows when it let go
    stack = stack_episodes([episode], 24)
    assert not stack.touch_known.any()
    assert stack.hand_known.all()
    assert stack.object_known.all()


def test_frames_that_are_not_finite_are_marked(tmp_path, fit):
    make_recording(tmp_path / "one", joints=nan_joints(7))
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    np.testing.assert_array_equal(np.flatnonzero(~found.hands[0].valid), [7])
    np.testing.assert_array_equal(found.hands[0].joints[7], found.hands[0].joints[6])
    assert any("1 frames of landmarks are not finite" in p for p in found.problems)


def test_a_mesh_in_millimetres(tmp_path, fit):
    write_box(make_recording(tmp_path / "one") / "mesh.obj", (30, 30, 30))
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    with pytest.raises(BadInput, match=r"30 m large, an object in a hand has .*: the mesh is in millimetres"):
        to_episode(found)


def test_an_object_in_millimetres(tmp_path, fit):
    root = make_recording(tmp_path / "one")
    pose = np.tile([50.0, 0, 400, 1.0, 0, 0, 0], (N, 1))
    np.savez(root / "object.npz", pose=pose, name="strawberry")
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert "positions of object 'strawberry' reach 400 m: they are in millimetres" in found.reason


# --- measured data ------------------------------------------------------------------------------------------------


@needs_data
def test_dexmv():
    (found,) = import_episodes("dexmv", Path(ROOT) / "hand_object")
    assert len(found.hands[0]) == len(found.objects[0]) == 122
    assert found.licence == "Apache-2.0"
    assert {"pictures", "mesh"} <= set(found.absent)


@needs_data
def test_the_real_hand_clip(tmp_path, fit):
    """A measured video with its landmarks of an average hand, as a pair of files."""
    source = Path(ROOT) / "hand_clip"
    (tmp_path / "clip.mp4").symlink_to(source / "human_hand_video.mp4")
    (tmp_path / "clip.npz").symlink_to(source / "human_joint_right.npz")
    (found,) = import_episodes("recording", tmp_path, fit=fit)
    assert isinstance(found, Imported), found.reason
    assert found.hands[0].side == "right"
    assert len(found.hands[0]) == found.views[0].frames == 621

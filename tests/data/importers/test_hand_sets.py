"""DexYCB, HO-Cap, HO-3D, ARCTIC and HOT3D: conventions against smplx as their toolkits set it up, and broken copies."""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import pickle
import shutil

import foreign_layouts as made
import numpy as np
import pytest
import yaml
from foreign_layouts import K, N, move, opencv_pixels

from dexprior.data.importers import Imported, ImportSettings, Rejected, import_episodes, to_episode
from dexprior.data.stacks import stack_episodes
from dexprior.errors import BadInput
from dexprior.geometry.transforms import matrix_from_pose, project
from dexprior.hands.mano import ManoHand

MAKERS = {
    "dexycb": made.make_dexycb,
    "hocap": made.make_hocap,
    "ho3d": made.make_ho3d,
    "arctic": made.make_arctic,
    "hot3d": made.make_hot3d,
}
STORES_JOINTS = ["dexycb", "hocap", "ho3d", "arctic"]
WORN = {"hocap": "hololens_kv5h72", "arctic": "worn", "hot3d": "214-1"}
T_HO3D = np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, -1.0, 0, 0], [0, 0, 0, 1.0]])  # OpenCV's camera -> z up


@pytest.fixture(scope="module", params=list(MAKERS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def truth(kind, mano, tmp_path_factory):
    return MAKERS[kind](tmp_path_factory.mktemp(kind), mano)


def base_of(kind, truth):
    return T_HO3D if kind == "ho3d" else truth.T_base_world


def only(found):
    found = list(found)
    assert all(isinstance(f, Imported) for f in found), [f.reason for f in found if isinstance(f, Rejected)]
    return found[0]


def of_side(hands, side):
    return next(hand for hand in hands if hand.side == side)


def test_mano_conventions(kind, truth, with_mano, mano):
    """Angles, wrist and shape, put through MANO once more, give the joints that the data set's own model gives."""
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    assert {hand.side for hand in found.hands} == {hand.side for hand in truth.hands}
    for expected in truth.hands:
        hand = of_side(found.hands, expected.side)
        joints = move(base_of(kind, truth), expected.joints)
        seen = hand.valid
        np.testing.assert_allclose(hand.joints[seen], joints[seen], atol=2e-6)
        np.testing.assert_allclose(hand.wrist_pose[seen, :3], joints[seen, 0], atol=2e-6)
        oracle = ManoHand(mano[hand.side], hand.side)
        if kind == "hot3d" and hand.side == "left":
            oracle.layer.shapedirs[:, 0].neg_()
        again = oracle.forward(hand.wrist_pose, hand.finger_pose, hand.betas)
        np.testing.assert_allclose(again[seen], joints[seen], atol=2e-6)
        assert not [p for p in found.problems if "another MANO version" in p]


def test_unseen_frames_are_not_valid(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    unseen = {"ho3d": ("right", 2), "hot3d": ("left", 1)}.get(kind)
    for hand in found.hands:
        expected = np.ones(N, dtype=bool)
        if unseen and hand.side == unseen[0]:
            expected[unseen[1]] = False
        np.testing.assert_array_equal(hand.valid, expected)


@pytest.mark.parametrize("kind", STORES_JOINTS)
def test_without_a_mano_file_the_stored_joints_are_enough(kind, mano, tmp_path, fit):
    truth = MAKERS[kind](tmp_path, mano)
    found = only(import_episodes(kind, tmp_path, fit=fit))
    assert len(found.hands) == len(truth.hands)
    for expected in truth.hands:
        hand = of_side(found.hands, expected.side)
        joints = move(base_of(kind, truth), expected.joints)
        np.testing.assert_allclose(hand.joints[hand.valid], joints[hand.valid], atol=2e-6)
    if kind == "ho3d":  # plain angles of a flat hand: nothing needs to be fitted
        np.testing.assert_allclose(found.hands[0].finger_pose[0], truth.hands[0].fingers[0], atol=1e-12)
    else:
        assert any("fitted to its joints" in p for p in found.problems)


def test_without_joints_or_mano_the_rest_is_usable(mano, tmp_path, fit):
    made.make_hot3d(tmp_path, mano)
    found = only(import_episodes("hot3d", tmp_path, fit=fit))
    assert found.hands == ()
    assert any("needs the user's MANO file" in p or "need the user's MANO file" in p for p in found.problems)
    assert found.objects
    assert found.views


def test_joints_reproject_where_the_data_set_says(kind, truth, with_mano):
    """Our pixels are OpenCV's plus half a pixel, in every camera, also in one that moves: frames, extrinsics and
    intrinsics in one test."""
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    expected = truth.hands[0]
    hand = of_side(found.hands, expected.side)
    assert found.views
    for view in found.views:
        local = move(np.linalg.inv(truth.T_world_cam[view.name]), expected.joints)
        pixels = project(view.camera.K, view.camera.T_base_cam, hand.joints)
        wanted = made.fisheye_pinhole_pixels(local) if kind == "hot3d" else opencv_pixels(local)
        np.testing.assert_allclose(pixels[hand.valid] - 0.5, wanted[hand.valid], atol=2e-2)


@pytest.mark.parametrize("kind", list(WORN), scope="module")
def test_a_worn_camera_keeps_its_path(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    view = next(v for v in found.views if v.name == WORN[kind])
    assert view.camera.moves
    np.testing.assert_allclose(view.camera.T_base_cam, truth.T_world_cam[view.name], atol=2e-6)
    settings = ImportSettings(height=24, cloud_points=64, view=view.name)
    found = dataclasses.replace(found, meshes={})
    episode = to_episode(found, settings)
    np.testing.assert_array_equal(episode.sample.camera.T_base_cam, view.camera.T_base_cam)
    np.testing.assert_array_equal(episode.condition.camera.T_base_cam, view.camera.T_base_cam)
    still = to_episode(found, ImportSettings(height=24, cloud_points=64))
    assert still.sample.camera.moves == (kind == "hot3d")  # a still camera where there is one


def test_a_head_whose_pose_is_missing_in_a_frame_is_left_out(mano, tmp_path, fit):
    made.make_hocap(tmp_path, mano)
    path = tmp_path / "subject_1" / "20231025_165502" / "poses_pv.npy"
    rows = np.load(path)
    rows[2] = -1
    np.save(path, rows)
    found = only(import_episodes("hocap", tmp_path, fit=fit))
    assert WORN["hocap"] not in [view.name for view in found.views]
    assert "camera hololens_kv5h72 is left out: poses_pv.npy lacks its pose in 1 of 6 frames" in found.problems


@pytest.mark.parametrize("what", ["absent", "half", "a pose too few", "no rotation"])
def test_without_the_worn_camera_the_still_ones_are_used(what, mano, tmp_path, fit):
    made.make_arctic(tmp_path, mano)
    path = tmp_path / "raw_seqs" / "s01" / "box_grab_01.egocam.dist.npy"
    ego = np.load(path, allow_pickle=True).item()
    if what == "absent":
        path.unlink()
    elif what == "half":
        damage(path)
    else:
        ego["R_k_cam_np"] = ego["R_k_cam_np"][1:] if what == "a pose too few" else 0 * ego["R_k_cam_np"]
        np.save(path, ego, allow_pickle=True)
    found = only(import_episodes("arctic", tmp_path, fit=fit))
    assert [view.name for view in found.views] == ["1", "4"]
    assert any(p.startswith("the worn camera is left out: ") for p in found.problems)


def test_a_lens_that_nobody_describes_leaves_pictures_without_calibration(mano, tmp_path, with_mano):
    made.make_hot3d(tmp_path, mano, lens="CameraModelType.KANNALA_BRANDT_K3")
    found = only(import_episodes("hot3d", tmp_path, settings=with_mano))
    assert found.views[0].camera is None
    assert any("KANNALA_BRANDT_K3 lens: pictures come without a pinhole calibration" in p for p in found.problems)


def test_object_poses_in_metres_in_the_base_frame(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    thing = next(o for o in found.objects if o.object == found.target)
    expected = base_of(kind, truth) @ truth.T_world_object
    np.testing.assert_allclose(matrix_from_pose(thing.pose)[thing.valid], expected[thing.valid], atol=2e-6)
    assert thing.valid.sum() == (N - 1 if kind == "ho3d" else N)


def test_what_every_episode_says(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    assert found.licence not in ("", "not stated")
    assert found.source.startswith("https://")
    assert found.views[0].fps == 30
    np.testing.assert_allclose(np.diff(found.hands[0].t), 1 / 30)
    frames = found.views[0].read(None, 0, N)
    assert frames.shape == (N, made.HEIGHT, made.WIDTH, 3)
    if kind == "hot3d":
        frames = frames[:, 20:28, 26:38]  # a straightened picture is that of the lens in its middle, and black outside
        expected = np.array([made.picture(k)[20:28, 26:38].mean() for k in range(N)])
        np.testing.assert_allclose(frames.reshape(N, -1).mean(axis=1), expected, atol=1.5)
        return
    brightness = frames.reshape(N, -1).mean(axis=1)
    expected = np.array([made.picture(k).mean() for k in range(N)])
    np.testing.assert_allclose(brightness, expected, atol=1.0)


@pytest.mark.parametrize("kind", STORES_JOINTS, scope="module")
def test_a_complete_episode(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    episode = to_episode(found, ImportSettings(height=24, cloud_points=64))
    assert episode.sample.frames.shape == (N, 24, 32, 3)
    assert episode.info["licence"] == found.licence
    assert {"wrench", "touch"} <= set(episode.info["not_recorded"])
    # pictures and calibration are scaled together
    view, hand = found.views[0], episode.sample.hands[0]
    full = project(view.camera.K, view.camera.T_base_cam, hand.joints)
    np.testing.assert_allclose(project(episode.sample.camera.K, view.camera.T_base_cam, hand.joints), full / 2)
    # the cloud lies on the box that the object is, in the base frame
    thing = episode.sample.object
    T = matrix_from_pose(thing.pose[int(thing.valid.argmax())])
    local = move(np.linalg.inv(T), episode.condition.cloud[:, :3])
    np.testing.assert_allclose(np.abs(local).max(axis=0), [0.03, 0.02, 0.05], atol=2e-3)
    normals = episode.condition.cloud[:, 3:] @ T[:3, :3]
    outward = np.take_along_axis(normals * local, np.abs(normals).argmax(axis=1)[:, None], axis=1)
    assert (outward > 0).all()


@pytest.mark.parametrize("kind", ["arctic", "hocap"], scope="module")
def test_both_hands_of_a_two_hand_set_train(kind, truth, with_mano):
    found = only(import_episodes(kind, truth.folder, settings=with_mano))
    settings = ImportSettings(height=24, cloud_points=64)
    episode = to_episode(found, settings)
    assert [hand.side for hand in episode.sample.hands] == ["right", "left"]
    assert [hand.side for hand in episode.condition.target] == ["right", "left"]
    assert episode.info["other_hands"] == []
    for hand in episode.sample.hands:
        np.testing.assert_array_equal(hand.joints, of_side(found.hands, hand.side).joints)
    stack = stack_episodes([episode], 24)
    assert stack.sides == ("right", "left")
    assert stack.hand_known.all()
    left = to_episode(found, dataclasses.replace(settings, side="left"))
    assert left.sample.hand.side == "left"
    assert left.info["other_hands"] == ["right"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(WORN), scope="module")
def test_a_head_and_two_hands_train_a_prior_that_samples_them(kind, truth, with_mano, tmp_path):
    from dexprior.prior.sampling import HandObjectPipeline
    from dexprior.prior.training import PriorConfig, train_prior

    found = dataclasses.replace(only(import_episodes(kind, truth.folder, settings=with_mano)), meshes={})
    settings = ImportSettings(height=24, cloud_points=64, view=WORN[kind])
    stack = stack_episodes([to_episode(found, settings)] * 2, 24)
    config = PriorConfig(
        size=24, width=32, layers=1, heads=2, channels=10, batch=2, video_clips=2, video_window=3, video_every=1,
        steps=2,
    )  # fmt: skip
    pipeline = HandObjectPipeline.fresh(train_prior(stack, config, tmp_path, seed=0))
    (sample,) = pipeline(stack.conditions[:1], motion_steps=2, video_steps=1, overlap=0)
    assert [hand.side for hand in sample.hands] == ["right", "left"]
    np.testing.assert_array_equal(sample.camera.T_base_cam, stack.conditions[0].camera.T_base_cam)
    for hand, start in zip(sample.hands, stack.conditions[0].start):
        np.testing.assert_allclose(hand.wrist_pose[0, :3], start.wrist_pose[:3], atol=1e-5)


def test_further_cameras_are_kept_on_demand(mano, tmp_path, fit):
    made.make_dexycb(tmp_path, mano, sequences=1)
    found = only(import_episodes("dexycb", tmp_path, fit=fit))
    (other,) = to_episode(found, ImportSettings(further_views=3)).views
    assert other.name == "839512060362"
    np.testing.assert_array_equal(other.camera.K, found.views[1].camera.K)
    np.testing.assert_array_equal(other.frames, found.views[1].read(None, 0, N))


def test_the_articulation_is_kept(mano, tmp_path, fit):
    made.make_arctic(tmp_path, mano)
    found = only(import_episodes("arctic", tmp_path, fit=fit))
    np.testing.assert_allclose(found.signals["articulation"].value[:, 0], np.linspace(0, 0.5, N), atol=1e-6)


def test_ho3d_version_2_has_png(mano, tmp_path, fit):
    made.make_ho3d(tmp_path, mano, version=2)
    found = only(import_episodes("ho3d", tmp_path, fit=fit))
    np.testing.assert_array_equal(found.views[0].read(None, 1, 2)[0], made.picture(1))


def test_a_left_hand_in_dexycb(mano, tmp_path, with_mano):
    truth = made.make_dexycb(tmp_path, mano, side="left")
    hand = only(import_episodes("dexycb", tmp_path, settings=with_mano)).hands[0]
    assert hand.side == "left"
    np.testing.assert_allclose(hand.joints, move(truth.T_base_world, truth.hands[0].joints), atol=2e-6)


def test_another_mano_version_is_noticed(mano, tmp_path):
    """A file whose wrist is elsewhere: the stored joints are kept, and the doubt is told."""
    made.make_ho3d(tmp_path / "set", mano)
    arrays = dict(np.load(mano["right"]))
    arrays["v_template"] = arrays["v_template"] + 0.02
    np.savez(tmp_path / "other.npz", **arrays)
    found = only(
        import_episodes("ho3d", tmp_path / "set", settings=ImportSettings(mano_right=str(tmp_path / "other.npz")))
    )
    assert any("35 mm from the stored one: another MANO version" in p for p in found.problems)


# --- broken copies --------------------------------------------------------------------------------------------


def damage(path, data: bytes | None = None) -> None:
    """Cut a file in half, or replace it."""
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2] if data is None else data)


def edit_yaml(path, **changes):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))


@pytest.fixture
def dexycb(mano, tmp_path):
    return made.make_dexycb(tmp_path / "dexycb", mano)


def first_and_second(kind, folder, fit):
    """What became of the damaged first sequence, and that the second was read all the same."""
    first, second = import_episodes(kind, folder, fit=fit)
    assert isinstance(second, Imported)
    return first


BROKEN_SEQUENCE = {
    "no calibration at all": (
        lambda root, seq: shutil.rmtree(root / "calibration" / "intrinsics"),
        "no camera can be used: camera 836212060125 is left out: .*836212060125_640x480.yml: no such file",
    ),
    "no objects listed": (
        lambda root, seq: edit_yaml(seq / "meta.yml", ycb_ids=None),
        "ycb_ids = None: expected a list",
    ),
    "an unknown object": (
        lambda root, seq: edit_yaml(seq / "meta.yml", ycb_ids=[3, 22]),
        "ycb_ids = 22: expected 1 to 21",
    ),
    "not YAML": (lambda root, seq: (seq / "meta.yml").write_text("a: [1"), "is not YAML"),
    "poses truncated": (
        lambda root, seq: damage(seq / "pose.npz"),
        "pose.npz is not an archive of plain arrays, or it is",
    ),
    "poses of another length": (lambda root, seq: edit_yaml(seq / "meta.yml", num_frames=N - 1), r"pose_y \(6, 2, 7\)"),
    "left labelled right": (
        lambda root, seq: edit_yaml(seq / "meta.yml", mano_sides=["left"]),
        "labelled wrongly|mirrored",
    ),
}


@pytest.mark.parametrize("what", list(BROKEN_SEQUENCE))
def test_a_broken_sequence_is_named_and_the_next_is_read(what, dexycb, fit):
    change, message = BROKEN_SEQUENCE[what]
    sequence = dexycb.folder / "20200709-subject-01" / "20200709_141750"
    change(dexycb.folder, sequence)
    found = list(import_episodes("dexycb", dexycb.folder, fit=fit))
    assert isinstance(found[0], Rejected)
    assert found[0].episode == "20200709-subject-01/20200709_141750"
    with pytest.raises(BadInput, match=message):
        raise BadInput(found[0].reason)
    shared = what == "no calibration at all"
    assert isinstance(found[1], Rejected if shared else Imported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root, seq: (seq / "836212060125" / "color_000003.jpg").unlink(), "1 of 6 pictures are missing"),
        (lambda root, seq: damage(seq / "836212060125" / "color_000000.jpg"), "is not a picture, or it is truncated"),
        (lambda root, seq: (root / "calibration/intrinsics/836212060125_640x480.yml").unlink(), "no such file"),
    ],
)
def test_without_one_camera_the_others_are_used(change, message, dexycb, fit):
    sequence = dexycb.folder / "20200709-subject-01" / "20200709_141750"
    change(dexycb.folder, sequence)
    found = only(import_episodes("dexycb", dexycb.folder, fit=fit))
    assert [view.name for view in found.views] == ["839512060362"]
    assert any("camera 836212060125 is left out" in p and message in p for p in found.problems)
    joints = move(dexycb.T_base_world, dexycb.hands[0].joints)
    np.testing.assert_allclose(found.hands[0].joints, joints, atol=2e-6)


def test_millimetres_for_metres(dexycb, fit):
    sequence = dexycb.folder / "20200709-subject-01" / "20200709_141750"
    for path in sequence.glob("*/labels_*.npz"):
        arrays = dict(np.load(path))
        np.savez(path, **arrays | {"joint_3d": 1000 * arrays["joint_3d"]})
    rejected = first_and_second("dexycb", dexycb.folder, fit)
    assert isinstance(rejected, Rejected)
    assert "joints are in millimetres" in rejected.reason


def test_not_finite_frames_are_marked_and_counted(dexycb, fit):
    sequence = dexycb.folder / "20200709-subject-01" / "20200709_141750"
    arrays = dict(np.load(sequence / "pose.npz"))
    arrays["pose_m"][2] = np.nan
    arrays["pose_y"][4, 1] = np.nan
    np.savez(sequence / "pose.npz", **arrays)
    found = only(import_episodes("dexycb", dexycb.folder, fit=fit))
    np.testing.assert_array_equal(np.flatnonzero(~found.hands[0].valid), [2])
    thing = next(o for o in found.objects if o.object == found.target)
    np.testing.assert_array_equal(np.flatnonzero(~thing.valid), [4])
    assert any("1 frames of the right hand are not finite" in p for p in found.problems)


@pytest.mark.parametrize("name", ["box_grab_01.mano.npy", "box_grab_01.object.npy"])
def test_truncated_arctic(name, mano, tmp_path, fit):
    made.make_arctic(tmp_path, mano)
    damage(tmp_path / "raw_seqs" / "s01" / name)
    (rejected,) = import_episodes("arctic", tmp_path, fit=fit)
    assert isinstance(rejected, Rejected)
    assert "truncated" in rejected.reason


def test_arctic_without_calibration_keeps_the_hands(mano, tmp_path, fit):
    made.make_arctic(tmp_path, mano)
    misc = json.loads((tmp_path / "meta" / "misc.json").read_text())
    misc["s01"]["world2cam"][0] = (2 * np.eye(4)).tolist()
    (tmp_path / "meta" / "misc.json").write_text(json.dumps(misc))
    found = only(import_episodes("arctic", tmp_path, fit=fit))
    assert [view.name for view in found.views] == ["4", "worn"]
    assert any("camera 1 is left out: a calibration's rotation has singular values" in p for p in found.problems)


def test_truncated_hot3d_clip(mano, tmp_path, fit):
    made.make_hot3d(tmp_path, mano)
    damage(tmp_path / "train_aria" / "clip-001849.tar")
    (rejected,) = import_episodes("hot3d", tmp_path, fit=fit)
    assert isinstance(rejected, Rejected)
    assert "truncated" in rejected.reason or "holds" in rejected.reason


def test_a_compressed_hot3d_clip_is_refused(mano, tmp_path, fit):
    """Members are read where they lie in the file, which a compressed one does not tell."""
    made.make_hot3d(tmp_path, mano)
    path = tmp_path / "train_aria" / "clip-001849.tar"
    path.write_bytes(lzma.compress(path.read_bytes()))
    (rejected,) = import_episodes("hot3d", tmp_path, fit=fit)
    assert isinstance(rejected, Rejected)
    assert "is not a tar archive" in rejected.reason


class Attack:
    """A pickle that writes a file when it is opened by a careless reader."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_runs_a_program_is_refused(mano, tmp_path, fit):
    made.make_ho3d(tmp_path / "ho3d", mano)
    made.make_arctic(tmp_path / "arctic", mano)
    trap = tmp_path / "opened"
    (tmp_path / "ho3d/train/ABF10/meta/0000.pkl").write_bytes(pickle.dumps({"camMat": Attack(trap)}))
    bad = np.empty((), dtype=object)
    bad[()] = Attack(trap)
    np.save(tmp_path / "arctic/raw_seqs/s01/box_grab_01.mano.npy", bad, allow_pickle=True)
    for kind in ("ho3d", "arctic"):
        (rejected,) = import_episodes(kind, tmp_path / kind, fit=fit)
        assert isinstance(rejected, Rejected)
        assert "asks for the global" in rejected.reason
        assert "was not opened" in rejected.reason
    assert not trap.exists()


def test_a_folder_of_something_else(tmp_path, kind):
    with pytest.raises(BadInput, match="holds no episode of the format"):
        list(import_episodes(kind, tmp_path))


def test_intrinsics_are_of_the_layouts_camera():
    assert K[0, 0] != K[1, 1], "square pixels would hide swapped axes"

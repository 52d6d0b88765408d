"""MANO: the file reader refuses programs, and the layer agrees with the skeleton of the same tree."""

from __future__ import annotations

import os
import pickle
import sys
import types

import numpy as np
import pytest

from dexprior import extras
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.hands import skeleton
from dexprior.hands.mano import (
    MANO_SHAPES,
    ManoHand,
    contact_configuration,
    read_mano,
    write_synthetic_mano,
)

needs_smplx = pytest.mark.skipif(not extras.available("smplx"), reason="needs smplx (the extra 'mano')")


@pytest.fixture(scope="module")
def mano_file(tmp_path_factory):
    return write_synthetic_mano(tmp_path_factory.mktemp("mano") / "SYNTHETIC_RIGHT.npz")


@pytest.fixture
def poses():
    rng = np.random.default_rng(3)
    wrist = np.concatenate([rng.normal(size=(4, 3)), quat_from_axis_angle(rng.normal(size=(4, 3)))], axis=1)
    return wrist, rng.normal(scale=0.4, size=(4, 45))


class _Program:
    def __reduce__(self):
        return os.system, ("echo owned",)


def test_a_program_in_a_pickle_is_refused_by_name(tmp_path):
    path = tmp_path / "MANO_RIGHT.pkl"
    path.write_bytes(pickle.dumps({"v_template": _Program()}, protocol=2))
    with pytest.raises(BadInput, match=r"global (posix|nt)\.system"):
        read_mano(path)


def test_eval_through_the_allowed_reconstructor_is_refused(tmp_path):
    path = tmp_path / "MANO_RIGHT.pkl"
    path.write_bytes(b"c__builtin__\neval\n(S'1'\ntR.")
    with pytest.raises(BadInput, match=r"__builtin__\.eval"):
        read_mano(path)


def test_official_layout_with_chumpy_and_sparse_objects(tmp_path, mano_file, monkeypatch):
    from scipy import sparse

    class Ch:
        pass

    class Select:
        pass

    for cls, name in ((Ch, "chumpy.ch"), (Select, "chumpy.reordering")):
        cls.__module__, cls.__qualname__ = name, cls.__name__
        module = types.ModuleType(name)
        setattr(module, cls.__name__, cls)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "chumpy", types.ModuleType("chumpy"))
    plain = read_mano(mano_file)
    raw = dict(plain)
    raw["shapedirs"] = Ch()
    raw["shapedirs"].x = plain["shapedirs"]
    raw["v_template"] = Select()
    raw["v_template"].a = plain["v_template"]
    raw["v_template"].idxs = np.arange(778 * 3)
    raw["v_template"].preferred_shape = (778, 3)
    raw["J_regressor"] = sparse.csc_matrix(plain["J_regressor"])
    raw["kintree_table"] = plain["kintree_table"].astype(np.uint32)
    raw["bs_style"] = "lbs"
    path = tmp_path / "MANO_RIGHT.pkl"
    path.write_bytes(pickle.dumps(raw, protocol=2))
    read = read_mano(path)
    for name in MANO_SHAPES:
        if name != "kintree_table":
            np.testing.assert_array_equal(read[name], plain[name])


@pytest.mark.parametrize(
    ("content", "message"), [(b"not a pickle", "not a pickle"), (pickle.dumps([1]), "holds a list")]
)
def test_other_files_are_named(tmp_path, content, message):
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_mano(path)


def test_absent_file_says_where_to_get_it(tmp_path):
    with pytest.raises(BadInput, match=r"mano\.is\.tue\.mpg\.de"):
        read_mano(tmp_path / "MANO_RIGHT.pkl")


@needs_smplx
@pytest.mark.parametrize("betas", [np.zeros(10), 2.0 * np.eye(10)[0], -1.5 * np.eye(10)[1]])
def test_synthetic_mano_has_the_joints_of_the_skeleton(mano_file, poses, betas):
    joints = ManoHand(mano_file).forward(*poses, betas)
    np.testing.assert_allclose(joints, skeleton.forward(*poses, betas), atol=1e-6)


@needs_smplx
def test_a_longer_hand_has_longer_bones(mano_file, poses):
    hand = ManoHand(mano_file)
    bones = np.array(skeleton.BONES)

    def lengths(betas):
        joints = hand.forward(*poses, betas)
        return np.linalg.norm(joints[:, bones[:, 1]] - joints[:, bones[:, 0]], axis=-1)

    np.testing.assert_allclose(lengths(np.eye(10)[0]), 1.04 * lengths(np.zeros(10)), rtol=1e-6)


@needs_smplx
def test_contact_configuration_reads_and_fits(mano_file, poses):
    hand = ManoHand(mano_file)
    contact = np.zeros((4, 5))
    contact[2, :2] = 0.9
    trajectory = hand.trajectory(np.arange(4) / 30, *poses, np.zeros(10), contact=contact)
    start = contact_configuration(trajectory, 2)
    assert start.touching.tolist() == [True, True, False, False, False]
    np.testing.assert_allclose(start.points[1], trajectory.joints[2, 8])

    middle = trajectory.joints[2, [4, 8]].mean(axis=0)  # make thumb and index meet between themselves
    points = np.zeros((5, 3))
    points[:2] = middle
    pinch = hand.fit_contacts(start, points, start.touching)
    tips = hand.forward(pinch.wrist_pose[None], pinch.finger_pose[None], pinch.betas)[0, [4, 8]]
    assert np.linalg.norm(tips - middle, axis=1).max() < 2e-3
    before = np.linalg.norm(trajectory.joints[2, [4, 8]] - middle, axis=1).max()
    assert before > 5e-3, "the fit had something to do"


@needs_smplx
def test_unknown_side(mano_file):
    with pytest.raises(BadInput, match="left, right"):
        ManoHand(mano_file, "both")

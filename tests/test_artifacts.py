"""What is saved comes back, what is not ours is refused, and a kill never leaves half a file."""

from __future__ import annotations

import dataclasses
import json
import os
import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dexprior.types as types
from dexprior.artifacts import (
    RunFolder,
    file_hash,
    from_tensors,
    load,
    load_all,
    load_module,
    load_training_state,
    read_header,
    read_tensors,
    save,
    save_module,
    save_training_state,
    to_tensors,
    write_atomic,
    write_json,
    write_tensors,
)
from dexprior.config import config, config_hash, difference
from dexprior.errors import ArtifactError, BadInput

TYPES = sorted(
    (c for c in map(types.__dict__.get, types.__all__) if dataclasses.is_dataclass(c)), key=lambda c: c.__name__
)


@config
class Stage:
    steps: int = 3
    """Number of steps."""


def is_safetensors(path) -> bool:
    """Eight bytes of length, then a JSON object: nothing that unpickles."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return data[8:9] == b"{" and isinstance(json.loads(data[8 : 8 + length]), dict)


# --- typed values -------------------------------------------------------------------------------------------


def test_there_is_an_example_of_every_type(examples):
    assert set(examples) == set(TYPES)


@pytest.mark.parametrize("cls", TYPES)
def test_every_type_comes_back(cls, examples, same, tmp_path):
    path = save(examples[cls], tmp_path / "value.safetensors", producer="test")
    same(load(path, cls), examples[cls])
    assert is_safetensors(path)


@pytest.mark.parametrize("cls", TYPES)
def test_every_type_survives_as_tensors_and_json(cls, examples, same):
    tensors, tree = to_tensors(examples[cls])
    same(from_tensors(json.loads(json.dumps(tree)), tensors), examples[cls])


def test_lists_come_back_in_order(example_makers, same, tmp_path):
    values = [example_makers(n=n, seed=n)[types.HandTrajectory] for n in (2, 4, 3)]
    path = save(values, tmp_path / "hands", producer="test")
    same(load_all(path, types.HandTrajectory), values)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=5) | st.sampled_from(["fields", "t", "header"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_plain_data_beside_arrays_comes_back(examples, same, plain):
    trace = dataclasses.replace(examples[types.Trace], info={"x": plain})
    tensors, tree = to_tensors(trace)
    same(from_tensors(json.loads(json.dumps(tree)), tensors), trace)


def test_numpy_scalars_and_arrays_in_plain_data(examples, tmp_path):
    trace = dataclasses.replace(
        examples[types.Trace], info={"n": np.int64(3), "x": np.float64(0.5), "a": np.arange(3), "s": np.array(2.0)}
    )
    info = load(save(trace, tmp_path / "trace", producer="test"), types.Trace).info
    assert info["n"] == 3
    assert info["x"] == 0.5
    np.testing.assert_array_equal(info["a"], np.arange(3))
    assert info["s"].shape == ()


def test_a_command_that_is_not_finite_comes_back_as_it_was(tmp_path):
    command = types.Command(seq=1, t=0.0, mode="joint_position", value=np.array([np.nan, np.inf]), gripper=np.nan)
    back = load(save(command, tmp_path / "command", producer="gate"), types.Command)
    np.testing.assert_array_equal(back.value, command.value)
    assert not back.finite


def test_loaded_values_are_read_only_and_checked(examples, tmp_path):
    hand = load(save(examples[types.HandTrajectory], tmp_path / "hand", producer="test"), types.HandTrajectory)
    with pytest.raises(ValueError, match="read-only"):
        hand.joints[0] = 0


def test_a_file_with_wrong_values_is_refused_by_its_type(examples, tmp_path):
    path = save(examples[types.HandTrajectory], tmp_path / "hand", producer="test")
    tensors, meta = read_tensors(path)
    write_tensors(path, tensors | {"0.contact": tensors["0.contact"] + 2}, meta)
    with pytest.raises(BadInput, match=r"HandTrajectory\.contact: largest value .* is above 1"):
        load(path, types.HandTrajectory)


def test_header_says_where_a_file_comes_from(examples, tmp_path):
    path = save(examples[types.Camera], tmp_path / "c", producer="data", seed=7, config=Stage(), parents=("abc", "def"))
    header = read_header(path)
    assert (header.schema, header.producer, header.seed) == ("dexprior.camera/2", "data", 7)
    assert header.parents == ("abc", "def")
    assert header.config_hash == config_hash(Stage())
    assert {"dexprior", "numpy", "torch", "mujoco"} <= set(header.versions)


# --- files that are not what they should be -----------------------------------------------------------------


def test_missing_file(tmp_path):
    with pytest.raises(ArtifactError, match=r"nothing.here: no such file"):
        load(tmp_path / "nothing.here", types.Camera)


def test_every_truncation_is_noticed(examples, tmp_path):
    data = save(examples[types.ContactSchedule], tmp_path / "whole", producer="test").read_bytes()
    cut = tmp_path / "cut"
    for length in {*range(0, len(data), 97), 1, 8, 9, len(data) - 1}:
        cut.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match="truncated"):
            load(cut, types.ContactSchedule)


@pytest.mark.parametrize(
    "data",
    [
        b"not safetensors at all",
        b"\x80\x04\x95" + b"\0" * 40,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2**60),
        struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc",
    ],
)
def test_foreign_bytes(data, tmp_path):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ArtifactError, match="is not a dexprior file"):
        load(tmp_path / "x", types.Camera)


def test_safetensors_of_another_program(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "plain")
    with pytest.raises(ArtifactError, match="is not a dexprior file"):
        load(tmp_path / "plain", types.Camera)
    write_tensors(tmp_path / "headless", {}, {"something": 1})
    with pytest.raises(ArtifactError, match="no dexprior header"):
        load(tmp_path / "headless", types.Camera)


def test_another_kind_of_file(examples, tmp_path):
    path = save(examples[types.Camera], tmp_path / "camera", producer="test")
    with pytest.raises(ArtifactError) as caught:
        load(path, types.WrenchTrack)
    assert str(caught.value) == (
        f"{path} holds 'dexprior.camera/2', expected 'dexprior.wrench_track/1': it is another kind of file"
    )


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("VideoSample", "dexprior sample"),
        ("PriorCondition", "dexprior data generate"),
        ("JointTrajectory", "dexprior retarget"),
    ],
)
def test_an_older_version_names_the_command_that_makes_it_again(examples, tmp_path, name, command):
    cls = getattr(types, name)
    path = save(examples[cls], tmp_path / "value", producer="test")
    tensors, meta = read_tensors(path)
    kind, number = cls.schema.split("/")
    meta["header"]["schema"] = f"{kind}/{int(number) - 1}"
    write_tensors(path, tensors, meta)
    said = f"/{int(number) - 1}', this version reads '{cls.schema}': make the file again with `{command}`"
    with pytest.raises(ArtifactError, match=said):
        load(path, cls)


def test_another_version_of_the_schema(examples, tmp_path):
    path = save(examples[types.Camera], tmp_path / "camera", producer="test")
    tensors, meta = read_tensors(path)
    meta["header"]["schema"] = "dexprior.camera/0"
    write_tensors(path, tensors, meta)
    with pytest.raises(ArtifactError, match=r"written with schema 'dexprior.camera/0'.*make the file again"):
        load(path, types.Camera)


def test_an_unknown_type_inside_a_file(examples, tmp_path):
    path = save(examples[types.VideoSample], tmp_path / "v", producer="test")
    tensors, meta = read_tensors(path)
    meta["tree"][0]["fields"]["camera"]["$type"] = "dexprior.lens/1"
    write_tensors(path, tensors, meta)
    with pytest.raises(ArtifactError, match=r"unknown type 'dexprior.lens/1'"):
        load(path, types.VideoSample)


def test_one_value_is_asked_for_and_several_are_there(examples, tmp_path):
    path = save([examples[types.Camera]] * 2, tmp_path / "cameras", producer="test")
    with pytest.raises(ArtifactError, match="holds 2 values of Camera, expected one"):
        load(path, types.Camera)


def test_nothing_to_save(tmp_path):
    with pytest.raises(ArtifactError, match="nothing to save"):
        save([], tmp_path / "x", producer="test")


# --- writing ------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "file", b"old")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"


def test_writing_makes_folders_and_leaves_nothing_else(tmp_path):
    write_atomic(tmp_path / "a" / "b" / "file", b"x")
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_json_is_indented_and_reads_back(tmp_path):
    path = write_json(tmp_path / "x.json", {"stage": Stage(steps=4), "pair": (1, 2)})
    assert json.loads(path.read_text()) == {"stage": {"steps": 4}, "pair": [1, 2]}
    assert path.read_text().endswith("}\n")


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.bool_, np.int64])
def test_arrays_keep_shape_and_dtype(shape, dtype, tmp_path):
    array = np.ones(shape, dtype=dtype)
    back = read_tensors(write_tensors(tmp_path / "x", {"a": array}, {}))[0]["a"]
    assert back.shape == shape
    assert back.dtype == dtype


def test_views_are_written_as_they_look(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    tensors = {"transposed": array.T, "strided": array[::2, ::-1]}
    back, _ = read_tensors(write_tensors(tmp_path / "x", tensors, {}))
    for name, value in tensors.items():
        np.testing.assert_array_equal(back[name], value)


def test_file_hash_is_that_of_the_bytes(tmp_path):
    a, b = write_atomic(tmp_path / "a", b"same"), write_atomic(tmp_path / "b", b"same")
    assert file_hash(a) == file_hash(b) != file_hash(write_atomic(tmp_path / "c", b"other"))
    assert len(file_hash(a)) == 16


# --- networks and training states ---------------------------------------------------------------------------


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def test_a_network_comes_back_with_its_configuration(tmp_path):
    module = network()
    path = save_module(
        module, tmp_path / "net", schema="dexprior.net/1", producer="test", config=Stage(), extra={"k": [1]}
    )
    weights, plain, extra = load_module(path, schema="dexprior.net/1")
    assert plain == {"steps": 3}
    assert extra == {"k": [1]}
    assert weights.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        assert weights[name].shape == value.shape
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0)
    assert is_safetensors(path)


def test_a_network_of_another_kind_is_refused(tmp_path):
    path = save_module(network(), tmp_path / "net", schema="dexprior.net/1", producer="test", config=Stage())
    with pytest.raises(ArtifactError, match="another kind of file"):
        load_module(path, schema="dexprior.policy/1")


def train(module, optimizer, start: int, stop: int) -> None:
    for step in range(start, stop):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (module(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("make", [torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_a_resumed_training_equals_the_uninterrupted_one(make, tmp_path):
    whole, first, second = network(), network(), network()
    train(whole, make(whole.parameters()), 0, 9)

    optimizer = make(first.parameters())
    train(first, optimizer, 0, 4)
    path = save_training_state(
        tmp_path / "state",
        modules={"net": first},
        optimizers={"net": optimizer},
        progress={"step": 4},
        config=Stage(),
        arrays={"world": np.arange(3.0)},
    )
    assert is_safetensors(path)

    with torch.no_grad():
        for parameter in second.parameters():
            parameter.zero_()
    optimizer = make(second.parameters())
    progress, arrays = load_training_state(path, modules={"net": second}, optimizers={"net": optimizer}, config=Stage())
    assert progress == {"step": 4}
    np.testing.assert_array_equal(arrays["world"], np.arange(3.0))
    train(second, optimizer, progress["step"], 9)
    for a, b in zip(whole.state_dict().values(), second.state_dict().values()):
        assert torch.equal(a, b)


def test_a_training_state_of_another_configuration_is_refused(tmp_path):
    module = network()
    parts = {"modules": {"net": module}, "optimizers": {"net": torch.optim.Adam(module.parameters())}}
    path = save_training_state(tmp_path / "state", **parts, progress={}, config=Stage())
    with pytest.raises(
        ArtifactError, match=r"belongs to another run: steps is 3 there, 4 here; go on with the same settings"
    ):
        load_training_state(path, **parts, config=Stage(steps=4))


def test_a_network_is_no_training_state(tmp_path):
    module = network()
    path = save_module(module, tmp_path / "net", schema="dexprior.net/1", producer="test", config=Stage())
    with pytest.raises(ArtifactError, match="another kind of file"):
        load_training_state(path, modules={"net": module}, optimizers={}, config=Stage())


# --- run folders --------------------------------------------------------------------------------------------


def test_a_finished_run_says_what_it_found(tmp_path):
    run = RunFolder(tmp_path / "run", "stage", Stage(), 0).open()
    assert run.result is None
    assert not RunFolder.finished(tmp_path / "run")
    run.finish({"loss": 0.25})
    assert RunFolder.finished(tmp_path / "run")
    assert RunFolder(tmp_path / "run", "stage", Stage(), 0).open().result == {"loss": 0.25}


def test_an_unfinished_run_goes_on_in_its_folder(tmp_path):
    RunFolder(tmp_path / "run", "stage", Stage(), 0).open()
    before = (tmp_path / "run" / "run.json").read_bytes()
    assert RunFolder(tmp_path / "run", "stage", Stage(), 0).open().result is None
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_a_folder_can_be_read_afterwards(tmp_path):
    RunFolder(tmp_path / "run", "prior", Stage(), 5, ("abc",)).open()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["stage"] == "prior"
    assert record["config"] == {"steps": 3}
    assert record["seed"] == 5
    assert record["parents"] == ["abc"]
    assert "commit" in record
    assert record["ranks"] == 1
    assert record["versions"]["dexprior"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (("other", Stage(), 0, ("a",)), 'stage is "stage" there, "other" here'),
        (("stage", Stage(steps=4), 0, ("a",)), "steps is 3 there, 4 here"),
        (("stage", (Stage(), Stage()), 0, ("a",)), 'configuration is {"steps": 3} there'),
        (("stage", Stage(), 1, ("a",)), "seed is 0 there, 1 here"),
        (("stage", Stage(), 0, ("b",)), 'input 1 is "a" there, "b" here'),
        (("stage", Stage(), 0, ()), r'the list of inputs is ["a"] there, [] here'),
    ],
)
def test_a_folder_of_another_run_is_refused_by_the_key_that_differs(other, said, tmp_path):
    RunFolder(tmp_path / "run", "stage", Stage(), 0, ("a",)).open().finish({})
    with pytest.raises(ArtifactError) as error:
        RunFolder(tmp_path / "run", *other).open()
    assert str(error.value).startswith(f"{tmp_path / 'run'} belongs to another run: {said}")
    assert str(error.value).endswith("; give another output folder, or delete that one")


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        ({"a": {"b": [1, 2]}, "c": 1}, {"a": {"b": [1, 3]}, "c": 2}, ("a.b", "[1, 2]", "[1, 3]")),
        ([{"a": 1}, {"b": {"c": True}}], ({"a": 1}, {"b": {"c": False}}), ("b.c", "true", "false")),
        ([{"a": 1}, 5], ({"a": 1}, 6), ("[1]", "5", "6")),
        ({"a": 1}, {"a": 1, "b": None}, ("b", "absent", "null")),
        ({"a": 1, "b": {"c": 2}}, {"a": 1}, ("b", '{"c": 2}', "absent")),
        ({"a": 1}, {"a": 1.0}, ("a", "1", "1.0")),
        ({"a": "x"}, {"a": ["x"]}, ("a", '"x"', '["x"]')),
        (3, Stage(), ("configuration", "3", '{"steps": 3}')),
        (Stage(), {"steps": 3}, None),
    ],
)
def test_the_first_setting_that_differs_is_named_by_its_path(there, here, said):
    assert difference(there, here) == said


# --- continuations ------------------------------------------------------------------------------------------


def opened(folder, *more):
    return RunFolder(folder, "stage", Stage(), 0, (), more).open()


def continued(folder):
    return [entry["more"] for entry in json.loads((folder / "run.json").read_text()).get("continued", [])]


def test_a_finished_run_is_continued_once_for_each_number_and_says_so(tmp_path):
    opened(tmp_path).finish({"loss": 3})
    assert opened(tmp_path, 5).result is None
    assert not RunFolder.finished(tmp_path)  # killed here, the same command goes on
    assert opened(tmp_path, 5).result is None
    opened(tmp_path, 5).finish({"loss": 2})
    assert continued(tmp_path) == [5]
    assert json.loads((tmp_path / "run.json").read_text())["continued"][0]["before"] == {"loss": 3}
    assert opened(tmp_path, 5).result == {"loss": 2}
    assert opened(tmp_path).result == {"loss": 2}
    assert opened(tmp_path, 5, 5).result is None
    opened(tmp_path, 5, 5).finish({"loss": 1})
    assert opened(tmp_path, 5).result == opened(tmp_path, 5, 5).result == {"loss": 1}
    assert continued(tmp_path) == [5, 5]


def test_killed_between_its_record_and_its_work_a_continuation_is_still_to_be_done(tmp_path):
    opened(tmp_path).finish({"loss": 3})
    done = (tmp_path / "done.json").read_bytes()
    opened(tmp_path, 5)
    (tmp_path / "done.json").write_bytes(done)
    assert opened(tmp_path, 5).result is None
    assert opened(tmp_path).result == {"loss": 3}


def test_what_cannot_be_continued_says_how_to_go_on(tmp_path):
    with pytest.raises(ArtifactError, match=r"more=5: .* holds no finished run to go on from"):
        opened(tmp_path / "new", 5)
    assert not (tmp_path / "new" / "run.json").exists()
    opened(tmp_path / "half")
    (tmp_path / "half" / "state").write_text("work")
    with pytest.raises(ArtifactError, match=r"is not finished; finish it with the same command without more="):
        opened(tmp_path / "half", 5)
    opened(tmp_path / "run").finish({})
    opened(tmp_path / "run", 5)
    for more in ((), (6,), (6, 5)):
        with pytest.raises(ArtifactError, match=r"was continued with more=5, which is not finished: give more=5"):
            opened(tmp_path / "run", *more)
    with pytest.raises(ArtifactError, match=r"more=5,7: .* is not finished; finish it with more=5"):
        opened(tmp_path / "run", 5, 7)


@pytest.mark.parametrize("name", ["actor.safetensors", "behavior.safetensors", "dexprior.json"])
def test_an_absent_input_names_the_verb_that_makes_it(name, tmp_path):
    verb = {
        "actor.safetensors": "train-policy",
        "behavior.safetensors": "build-behavior",
        "dexprior.json": "train-prior",
    }
    for read in (file_hash, read_tensors):
        with pytest.raises(ArtifactError, match=f"{name}: no such file; `dexprior {verb[name]}` makes it"):
            read(tmp_path / name)
    with pytest.raises(ArtifactError, match=r"mine: no such file$"):
        file_hash(tmp_path / "mine")


def test_a_damaged_record_is_named(tmp_path):
    run = RunFolder(tmp_path / "run", "stage", Stage(), 0).open()
    run.file("run.json").write_text("{")
    run.file("state").write_text("work")
    with pytest.raises(BadInput, match=r"run\.json is not valid JSON"):
        run.open()


def test_a_folder_whose_first_try_made_nothing_may_be_used_again(tmp_path):
    RunFolder(tmp_path / "run", "stage", {"steps": 1}, 0).open()
    RunFolder(tmp_path / "run", "stage", {"steps": 2}, 0).open()
    (tmp_path / "run" / "state").write_text("work")
    with pytest.raises(ArtifactError, match="steps is 2 there, 3 here"):
        RunFolder(tmp_path / "run", "stage", {"steps": 3}, 0).open()


@pytest.mark.parametrize(
    ("text", "message"), [("[]", "not the record of a run"), ("\xff\xfe", "not valid JSON|UTF-16")]
)
def test_a_run_record_that_is_none_is_named(tmp_path, text, message):
    (tmp_path / "run.json").write_bytes(text.encode("latin1"))
    (tmp_path / "weights").touch()
    with pytest.raises((ArtifactError, BadInput), match=message):
        RunFolder(tmp_path, "stage", Stage(), 0).open()

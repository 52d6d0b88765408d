"""Recorded episodes: read as they were sent, and refused where they are not what the manifest says."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from dexprior.behavior import MANIFEST, BehaviorConfig, read_recordings
from dexprior.data.traces import write_trace
from dexprior.errors import ArtifactError, BadInput
from dexprior.types import Channel, Trace

DT, SCALE = 0.04, np.array([0.5, 0.5, 0.5, 2.0, 2.0, 2.0])
T = DT * np.arange(1, 41)


def _trace(*, shift=0.0, start=0.0, width=7, info=None, panel="site", quaternion=(0.0, 1.0, 0.0, 0.0)) -> Trace:
    """Straight along x at 0.1 m/s, closing after a second; a pose is read at the end of each period."""
    pose = np.column_stack([0.4 + shift + 0.1 * T, 0 * T, 0 * T + 0.1, *(np.full_like(T, q) for q in quaternion)])
    action = np.zeros((len(T), width))
    action[:, -1] = np.where(T < 1.0 + DT / 2, 1.0, -1.0)
    return Trace(
        channels={
            "tool_pose": Channel(t=start + T, t_host=start + T, value=pose, unit="m, 1", frame="base", kind="measured"),
            "command": Channel(t=start + T - DT, t_host=start + T - DT, value=action, unit="1", frame="base",
                               kind="commanded"),
        },
        panel_hash=panel, info={"instance": 3, "success": True} if info is None else info,
    )  # fmt: skip


def _manifest(folder, traces):
    (folder / "data").mkdir()
    listed = []
    for k, trace in enumerate(traces):
        path = folder / "data" / f"{k}.mcap"
        write_trace(trace, path)
        listed.append({"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    checksum = hashlib.sha256("".join(f"{r['file']}\0{r['sha256']}\n" for r in listed).encode()).hexdigest()
    plain = {"header": {"schema": MANIFEST}, "init": "runs/p", "folder": str(folder / "data"), "episodes": listed}
    (folder / "train.json").write_text(json.dumps(plain | {"checksum": checksum}))
    return folder / "train.json"


def _prior(recordings):
    return recordings.prior(BehaviorConfig(lead=DT), scale=SCALE, dt=DT, panel_hash="p")


def test_the_prior_asks_for_what_was_sent(tmp_path):
    """On the recorded path: its speed, and the opening of the same period; whatever the recorder's clock began with."""
    recordings = read_recordings(_manifest(tmp_path, [_trace(start=7.0)]))
    prior = _prior(recordings)
    k = np.array([5, 24, 25])
    at = np.array([[0.4 + 0.1 * DT * (j + 1), 0, 0.1, 0, 1, 0, 0] for j in k])
    mean, _ = prior.components(at[:, None], DT * k, np.zeros(3, dtype=int))
    np.testing.assert_allclose(mean[:, 0, 0], 0.1 / 0.5, atol=1e-6)
    np.testing.assert_allclose(mean[:, 0, 6], [1.0, 1.0, -1.0])
    assert recordings.init == "runs/p"


def test_scenes_are_instances_and_failures_are_left_out(tmp_path):
    infos = [{"instance": i, "success": ok} for i, ok in ((5, True), (2, True), (5, True), (5, False))]
    traces = [_trace(shift=0.01 * k, info=info) for k, info in enumerate(infos)]
    recordings = read_recordings(_manifest(tmp_path, traces))
    assert recordings.left_out == 1
    prior = _prior(recordings)
    assert prior.tool.shape[:2] == (2, 2)  # instances 2 and 5, two trajectories each
    np.testing.assert_allclose(
        prior.tool[:, :, 0, 0, 0] - prior.tool[0, 0, 0, 0, 0], [[0, 0], [-0.01, 0.01]], atol=1e-9
    )


@pytest.mark.parametrize(
    ("traces", "message"),
    [
        ([], "lists 0 episodes, none of them a success"),
        ([_trace(info={"instance": 0, "success": False})], "lists 1 episodes, none"),
        ([_trace(width=6)], r"0.mcap: channel 'command' has the shape \(40, 6\), expected \(time, 7\)"),
        ([_trace(info={})], r"0.mcap: info\['instance'\] is None"),
        ([_trace(quaternion=(0.0, 2.0, 0.0, 0.0))], r"0.mcap: channel 'tool_pose': a quaternion has a length 1 away"),
        ([_trace(), _trace(panel="other")], "episodes of different panels: site .*, other"),
    ],
)  # fmt: skip
def test_what_cannot_be_imitated_is_named(tmp_path, traces, message):
    with pytest.raises(BadInput, match=message):
        read_recordings(_manifest(tmp_path, traces))


def test_channels_that_are_missing_and_values_that_are_no_numbers_are_named(tmp_path):
    whole = _trace()
    path = _manifest(
        tmp_path, [Trace(channels={"tool_pose": whole["tool_pose"]}, panel_hash="site", info={"instance": 0})]
    )
    with pytest.raises(BadInput, match=r"0.mcap: .*command"):
        read_recordings(path)
    with pytest.raises(BadInput, match="nan"):
        _trace(shift=np.nan)  # no trace with such a value can be written


def test_what_was_changed_since_is_refused(tmp_path):
    path = _manifest(tmp_path, [_trace()])
    file, whole = tmp_path / "data" / "0.mcap", path.read_text()
    write_trace(_trace(shift=0.02), tmp_path / "other.mcap")
    file.write_bytes((tmp_path / "other.mcap").read_bytes())
    with pytest.raises(ArtifactError, match=r"0.mcap was changed after .*train.json was written"):
        read_recordings(path)
    path.write_text(whole.replace("0.mcap", "other.mcap"))
    with pytest.raises(ArtifactError, match="its list of episodes was edited"):
        read_recordings(path)
    path.write_text(whole)
    file.unlink()
    with pytest.raises(ArtifactError, match="which does not exist"):
        read_recordings(path)
    path.write_text("{}")
    with pytest.raises(ArtifactError, match="is not a manifest"):
        read_recordings(path)
    for wrong in ({"folder": None}, {"init": 5}):
        path.write_text(json.dumps(json.loads(whole) | wrong))
        with pytest.raises(ArtifactError, match="expected a text"):
            read_recordings(path)
    with pytest.raises(ArtifactError, match="ledger plan"):
        read_recordings(tmp_path / "none.json")


def test_two_robots_with_more_numbers_are_read_side_by_side(tmp_path):
    one, n = _trace(), len(T)
    pose = np.concatenate([one["tool_pose"].value, one["tool_pose"].value + np.array([0, 0.2, 0, 0, 0, 0, 0])], axis=1)
    action = np.tile(np.arange(16) / 16.0, (n, 1))
    both = {
        name: Channel(t=c.t, t_host=c.t, value=value, unit=c.unit, frame=c.frame, kind=c.kind)
        for name, value in (("tool_pose", pose), ("command", action))
        for c in (one[name],)
    }
    path = _manifest(tmp_path, [Trace(channels=both, panel_hash="site", info={"instance": 0})])
    with pytest.raises(BadInput, match=r"'tool_pose' has the shape \(40, 14\), expected \(time, 7\)"):
        read_recordings(path)
    prior = _prior(read_recordings(path, robots=2, ends=2))
    assert prior.size == 16
    mean, _ = prior.components(prior.tool[:, 0, 3], np.array([3 * DT]), np.array([0]))
    np.testing.assert_allclose(mean[0, 0, [0, 8]], 0.1 / 0.5, atol=1e-6)
    np.testing.assert_allclose(mean[0, 0, [6, 7, 14, 15]], np.array([6, 7, 14, 15]) / 16)

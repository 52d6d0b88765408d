"""A Franka's link, shaping and settings, without a robot."""

import numpy as np
import pytest
from motion_checker import beyond
from PIL import Image

from dexprior.envs.hardware import HardwareOptions, gate_config
from dexprior.envs.hardware.franka import FR3, FrankaDriver, read_trip
from dexprior.envs.hardware.franka.limits import SHAPED
from dexprior.envs.hardware.franka.link import ASKED, STATE, Link
from dexprior.envs.hardware.franka.shaping import Shaper
from dexprior.envs.hardware.franka.trip import draw_trip
from dexprior.errors import ArtifactError, BadInput, ConnectionLost
from dexprior.worlds.tasks import make_task

TASK = make_task("insertion").other()


def test_what_is_sent_keeps_to_the_limits_whatever_is_asked_for():
    rng, shaper = np.random.default_rng(0), Shaper(SHAPED)
    sent = []
    for _ in range(60):
        asked = (rng.normal(size=6) * rng.choice([0.01, 0.3, 5.0])).tolist()
        sent += [shaper.step(asked) for _ in range(int(rng.integers(1, 400)))]
    sent = np.array(sent)
    assert not beyond(sent, np.ones(len(sent)), SHAPED)
    assert np.linalg.norm(sent[:, :3], axis=1).max() > 0.5 * SHAPED.speed  # it does move
    jump = np.zeros((3, 6))
    jump[1:, 0] = 0.1
    assert set(beyond(jump, np.ones(3), FR3)) == {"acceleration", "jerk"}  # the checker can fail


def test_a_shaped_twist_arrives_and_comes_to_rest():
    shaper = Shaper(SHAPED)
    for _ in range(400):
        twist = shaper.step([0.2, -0.1, 0.0, 0.0, 0.0, 0.5])
    assert np.allclose(twist, [0.2, -0.1, 0.0, 0.0, 0.0, 0.5], atol=1e-6)
    assert not shaper.still
    stopping = 0
    while not shaper.still:
        shaper.step([0.0] * 6)
        stopping += 1
    assert 0.2 / SHAPED.acceleration < 1e-3 * stopping < 0.25
    one, three = Shaper(SHAPED), Shaper(SHAPED)
    for _ in range(3):
        twist = one.step([0.1] * 6)
    assert three.step([0.1] * 6, cycles=3) == twist  # cycles that were lost are caught up with


def test_rings_keep_the_newest_rows_in_order(tmp_path):
    link = Link(tmp_path / "franka.link", create=True)
    assert link.asked.last() is None
    for k in range(100):
        link.asked.add(ASKED.row(number=k, values=np.arange(7.0) + k))
    other = Link(tmp_path / "franka.link")
    assert ASKED.read(other.asked.last())["number"] == 99
    assert ASKED.read(other.asked.since(98))["number"].tolist() == [98, 99]
    kept = ASKED.read(other.asked.since(0))["number"]
    assert len(kept) == 63
    assert kept.tolist() == list(range(37, 100))
    assert (ASKED.read(other.asked.since(100))["values"]).shape == (0, 7)


def test_the_last_seconds_are_read_from_the_file(tmp_path):
    link = Link(tmp_path / "franka.link", create=True)
    for k in range(5):
        link.state.add(STATE.row(t=0.001 * k, sent=[0.1 * k, 0, 0, 0, 0, 0]))
    link.error = "ä force of 21 N"
    rows, why = read_trip(tmp_path / "franka.link")
    assert rows["t"].tolist() == [0.0, 0.001, 0.002, 0.003, 0.004]
    assert rows["sent"].shape == (5, 6)
    assert why == "ä force of 21 N"
    told = draw_trip(tmp_path / "franka.link", tmp_path / "trip")
    assert (told["why"], told["status"], told["seconds"]) == ("ä force of 21 N", "ready", 0.004)
    assert told["speed_m_s"] == pytest.approx(0.4)
    table = np.loadtxt(told["table"], delimiter=",", skiprows=1)
    assert table.shape == (5, STATE.size)
    assert Image.open(told["picture"]).size == (960, 840)
    Link(tmp_path / "empty.link", create=True)
    with pytest.raises(ArtifactError, match="ended before it had a state"):
        read_trip(tmp_path / "empty.link")
    with pytest.raises(ArtifactError, match=r"nothing\.link: no record of a Franka"):
        read_trip(tmp_path / "nothing.link")
    (tmp_path / "other.link").write_bytes(b"\0" * (tmp_path / "franka.link").stat().st_size)
    with pytest.raises(ArtifactError, match="no record of a Franka's loop, or one of another version"):
        read_trip(tmp_path / "other.link")


def test_a_franka_has_limits_of_its_own_beneath_those_that_are_given():
    options = HardwareOptions(driver="franka", address="192.0.2.1", gate={"max_force": 15.0, "robot": {"lag": 0.1}})
    gate = gate_config(TASK, options.limits)
    assert (gate.max_force, gate.max_linear_speed, gate.robot.lag) == (15.0, 0.25, 0.1)
    assert gate.robot.deceleration < SHAPED.acceleration
    assert HardwareOptions().limits == {}
    with pytest.raises(BadInput, match=r"hardware\.address: required with hardware\.driver=franka"):
        HardwareOptions(driver="franka")


def test_an_address_where_nothing_answers_is_one_error():
    gate = gate_config(TASK, HardwareOptions(driver="franka", address="127.0.0.1").limits)
    driver = FrankaDriver("127.255.255.1", gate=gate, home=TASK.layout().rigs[0].home, realtime=False)
    with pytest.raises(ConnectionLost, match=r"the Franka at 127\.255\.255\.1: .*[Cc]onnection"):
        driver.connect()
    with pytest.raises(ConnectionLost, match="not connected"):
        driver.read()
    driver.close()
    with pytest.raises(BadInput, match="a Franka has 7 joints"):
        FrankaDriver("127.0.0.1", gate=gate, home=np.zeros(6))

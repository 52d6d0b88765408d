"""The hybrid backend: MuJoCo's world when its model is not asked, the model's answer when it is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dexprior.collision import (
    HybridConfig,
    ImpulseNetwork,
    RestitutionFriction,
    Surrogate,
    SurrogateConfig,
)
from dexprior.envs.hybrid import HybridBackend
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.policy.rollout import run_episodes, traces
from dexprior.worlds.tasks import make_task

TASK = make_task("insertion")


@pytest.fixture
def tame() -> Panel:
    """Two instances."""
    return Panel.sample("test", TASK, 2, seed=3)


def _drop(backend: SimBackend, panel: Panel, steps: int, height: float = 0.05) -> np.ndarray:
    """Heights of the nuts after each step, dropped from above the table [m]."""
    backend.reset(panel.take(np.arange(backend.n)))
    backend.worlds.view.pose("nut")[:, 2] += height
    still = backend.actions.commands(np.tile([0, 0, 0, 0, 0, 0, 1.0], (backend.n, 1)))
    return np.array([backend.step(still).truth["object"][:, 2] for _ in range(steps)])


def _hybrid(restitution: float, n: int = 1, **limits) -> HybridBackend:
    return HybridBackend(
        TASK, n, RestitutionFriction(), np.array([restitution, 0.3]), config=HybridConfig(**limits), threads=1
    )


def test_a_model_that_is_never_asked_changes_nothing(tame):
    """Whatever is read, outputs of the last step included, and whatever the parameters are of each world."""
    hybrid, plain = _hybrid(0.5, n=2, min_approach=1e6), SimBackend(TASK, 2, threads=1)
    np.testing.assert_allclose(_drop(hybrid, tame, 15), _drop(plain, tame, 15), rtol=0, atol=1e-12)
    for action in np.random.default_rng(0).uniform(-1, 1, (10, 2, 7)):
        readings = [backend.step(backend.actions.commands(action)) for backend in (hybrid, plain)]
    for name, value in vars(readings[0].robots[0]).items():
        np.testing.assert_allclose(value, getattr(readings[1].robots[0], name), atol=1e-9, err_msg=name)
    assert not any(hybrid.counts.values())
    geoms = [backend.worlds.view.field("geom_xpos") for backend in (hybrid, plain)]
    np.testing.assert_allclose(*geoms, atol=1e-9)


def test_worlds_side_by_side_are_worlds_alone(tame):
    together = _drop(_hybrid(0.4, n=2), tame, 8)
    for k in range(2):
        np.testing.assert_allclose(_drop(_hybrid(0.4), tame.take([k]), 8)[:, 0], together[:, k], rtol=0, atol=1e-12)


def test_parameters_that_change_reach_the_hybrid_s_models(tame):
    backend = _hybrid(0.5, n=2)
    backend.reset(tame)
    backend.step(backend.actions.commands(np.zeros((2, 7))))
    factor = tame.parameters[:, TASK.family.names.index("nut_mass")]
    now = [stepper.model.body("nut").mass[0] for stepper in backend.engine.hybrid.steppers]
    np.testing.assert_allclose(now, TASK.config.mass * factor)


def test_a_snapshot_goes_on_where_it_was_taken(tame):
    hybrid = _hybrid(0.5, n=2)
    _drop(hybrid, tame, 5)
    kept = hybrid.worlds.snapshot()
    rows = [TASK.family.as_dict(row) for row in tame.parameters]
    action = hybrid.actions.commands(np.full((2, 7), 0.2))
    wanted = [hybrid.step(action).truth["object"] for _ in range(4)]
    hybrid.worlds.restore(kept, rows)
    for want in wanted:
        np.testing.assert_allclose(hybrid.step(action).truth["object"], want, atol=1e-9)


def test_an_impact_is_answered_and_counted_and_bounces_by_its_restitution(tame):
    counts, heights = {}, {}
    for restitution in (0.0, 0.6):
        hybrid = _hybrid(restitution)
        heights[restitution] = _drop(hybrid, tame, 8)
        counts[restitution] = hybrid.counts
    assert counts[0.0]["impacts"] > 0
    assert counts[0.6]["impacts"] > 0
    assert heights[0.6][2:].max() > heights[0.0][2:].max() + 0.002


def test_each_reset_is_bound_to_afresh_and_counts_go_on(tame):
    hybrid = _hybrid(0.0)
    _drop(hybrid, tame, 6)
    once = hybrid.counts["impacts"]
    _drop(hybrid, tame, 6)
    assert hybrid.counts["impacts"] == 2 * once > 0


def test_a_checkpoint_is_loaded_with_its_parameters(tame, tmp_path):
    torch.manual_seed(0)
    network = ImpulseNetwork(SurrogateConfig(width=8, depth=1))
    seen = np.array([[-50.0, 50.0]] * 4)
    phi = np.array([0.3, 0.5, 0.001, 1.0, 0.0])
    named = dataclasses.replace(Surrogate.from_network(network, seen), phi=phi)
    path = named.save(tmp_path / "with.safetensors", producer="test", seed=0)
    hybrid = HybridBackend.load(TASK, 1, path)
    assert np.isfinite(_drop(hybrid, tame, 6)).all()
    assert sum(hybrid.counts.values()) > 0
    bare = Surrogate.from_network(network, seen).save(tmp_path / "bare.safetensors", producer="test", seed=0)
    with pytest.raises(BadInput, match="give phi"):
        HybridBackend.load(TASK, 1, bare)
    HybridBackend.load(TASK, 1, bare, phi=phi)
    with pytest.raises(ArtifactError, match="no such file"):
        HybridBackend.load(TASK, 1, tmp_path / "absent.safetensors")


def test_mistakes_are_found_at_once():
    with pytest.raises(UnknownName, match="nut9"):
        HybridBackend(TASK, 1, RestitutionFriction(), np.array([0.0, 0.3]), pairs=[("nut9", "table")])
    with pytest.raises(BadInput, match="phi"):
        HybridBackend(TASK, 1, RestitutionFriction(), np.array([0.0]))
    with pytest.raises(BadInput, match="task 'peg' names no pair"):
        HybridBackend(make_task("peg"), 1, RestitutionFriction(), np.array([0.0, 0.3]))
    cloth = make_task("folding", engine="particles")
    with pytest.raises(BadInput, match="ParticleBatch steps these"):
        HybridBackend(cloth, 1, RestitutionFriction(), np.array([0.0, 0.3]), pairs=[("board", "table")])


def test_a_nut_that_lands_flat_is_asked_about_once_a_touch(tame):
    """All its geoms are one patch, struck at the centre: it bounces straight up."""
    hybrid = _hybrid(0.5)
    still = hybrid.actions.commands(np.array([[0, 0, 0, 0, 0, 0, 1.0]]))
    hybrid.reset(tame.take([0]))
    hybrid.worlds.view.pose("nut")[0, 2] += 0.05
    while hybrid.counts["impacts"] == 0:
        hybrid.step(still)
    assert hybrid.counts["impacts"] == 1
    (stepper,) = hybrid.engine.hybrid.steppers
    assert len(stepper.answers) == 1
    nut = hybrid.worlds.model.joint("nut").dofadr[0]
    answer = stepper.answers[0]
    assert answer.post[nut + 2] == pytest.approx(-0.5 * answer.pre[nut + 2], rel=1e-6)
    np.testing.assert_allclose(answer.post[nut + 3 : nut + 6], 0.0, atol=1e-3)


def test_geoms_may_still_be_watched_one_by_one(tame):
    pairs = [(f"nut{k}", "table") for k in range(8)]
    one_by_one = HybridBackend(TASK, 1, RestitutionFriction(), np.array([0.5, 0.3]), pairs=pairs)
    patch = HybridBackend(TASK, 1, RestitutionFriction(), np.array([0.5, 0.3]))
    np.testing.assert_allclose(_drop(one_by_one, tame, 4), _drop(patch, tame, 4), atol=1e-6)


@pytest.mark.parametrize("sensing_time", [None, 0.004])
def test_a_trace_shows_the_force_of_an_impact_at_whatever_moment_it_comes(sensing_time):
    """A cube thrown at the gripper in four worlds, a few simulation steps later in each: the wrist feels it in all.

    A reading is a control period's mean. One simulation step's alone would say nothing in most worlds, as MuJoCo's own
    does: contact lasts for less than a control period.
    """
    task = make_task("pick_place")
    panel = Panel.sample("thrown", task, 4, seed=3)
    backend = HybridBackend(
        task, 4, RestitutionFriction(), np.array([0.5, 0.1]), threads=1,
        pairs=[("cube", ("geom:robot/pad_left", "geom:robot/pad_right"))],
        config=HybridConfig(sensing_time=sensing_time),
    )  # fmt: skip

    def throw(observation, reading):
        if reading.t[0] == 0:
            view = backend.worlds.view
            aside = np.array([[0.0, 0.2 + 0.02 * late, 0.0] for late in range(4)])
            view.pose("cube")[:, :3] = backend.worlds.state()[0].tcp[:, :3] + aside
            view.velocity("cube")[:, :3] = 0.0, -2.0, 0.4
        return np.tile([0.0, 0, 0, 0, 0, 0, 1.0], (4, 1))

    episodes = run_episodes(throw, backend, panel)
    assert backend.counts["impacts"] >= 4
    force = np.stack([trace.channels["force"].value[:10, 1] for trace in traces(episodes, panel, "hybrid")])
    felt = np.abs(force - np.median(force, axis=1, keepdims=True)).max(axis=1) > 1.2  # N; noise is at .2
    if sensing_time is None:
        assert felt.all()
    else:
        assert not felt.all()

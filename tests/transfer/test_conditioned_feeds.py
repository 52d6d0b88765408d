"""A conditioned family is a family: task worlds randomize with it, and the generator of impacts draws from it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.collision import ContactRanges, GeneratorConfig, generate_pairs
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily
from dexprior.transfer.conditioning import (
    Conditioned,
    ConditioningConfig,
    Observations,
    SamplerConfig,
    VerdictConfig,
    condition,
)
from dexprior.worlds.tasks import TaskWorlds, make_task

QUICK = SamplerConfig(particles=128)


def conditioned(
    family: ParameterFamily, names: tuple[str, str], density: str, truth: tuple[float, float]
) -> Conditioned:
    """As after traces that tell the product of two parameters to a percent, and the first one to a tenth."""
    one, other = (family.names.index(name) for name in names)

    def simulate(values):
        first, second = values[:, one], values[:, other]
        return np.log(np.stack([first * second, first], axis=1))

    clean = np.log([truth[0] * truth[1], truth[0]])
    observations = Observations(values=[clean, clean], noise=[0.01, 0.1])
    settings = ConditioningConfig(sampler=QUICK, evaluations=0, verdict=VerdictConfig(density=density, margin=0.9))
    return condition(family, observations, simulate=simulate, settings=settings, seed=0)


@pytest.fixture(scope="module", params=["copula", "particles", "flow"])
def family(request) -> ParameterFamily:
    """Of pick-and-place: friction of the cube and its mass hang together."""
    task = make_task("pick_place")
    return conditioned(task.family, ("cube_friction", "cube_mass"), request.param, (0.6, 1.0)).family


def correlation(values: np.ndarray, family: ParameterFamily) -> float:
    columns = [family.names.index(name) for name in ("cube_friction", "cube_mass")]
    return float(np.corrcoef(np.log(values[:, columns]).T)[0, 1])


def test_task_worlds_get_the_joint_values(family):
    task = make_task("pick_place")
    assert set(family.density.names) == {"cube_friction", "cube_mass"}
    values = family.sample(np.random.default_rng(0), 400)
    assert correlation(values, family) < -0.7
    worlds = TaskWorlds(task, 3, family=family, threads=1)
    worlds.reset(np.arange(3), task.sample(np.random.default_rng(1), 3), [family.as_dict(row) for row in values[:3]])
    for world, row in enumerate(values[:3]):
        model, _ = worlds.data(world)
        wanted = family.as_dict(row)
        assert model.geom("cube").friction[0] == pytest.approx(wanted["cube_friction"])
        assert model.body("cube").mass[0] == pytest.approx(0.08 * wanted["cube_mass"])


def test_environments_and_panels_randomize_with_it(family, tmp_path):
    task = make_task("pick_place")
    env = TaskVectorEnv(task, 24, family=family, threads=1)
    env.reset(seed=3)
    drawn = np.array([[row[name] for name in family.names] for row in env.worlds.view.parameters])
    assert correlation(drawn, family) < -0.5
    observation, *_ = env.step(np.zeros((24, env.worlds.action_size)))
    assert all(np.isfinite(value).all() for value in observation.values())
    env.close()
    panel = Panel.sample("p", task, 5, seed=0, family=family)
    again = Panel.load(panel.save(tmp_path / "panel.json"))
    assert again.family == family
    np.testing.assert_array_equal(again.parameters, panel.parameters)


# --- the collision model's generator ------------------------------------------------------------------------

SMALL = GeneratorConfig(pairs=300)


def contact(name: str, low: float, high: float) -> Parameter:
    return Parameter(
        name=name, unit="1", low=low, high=high, distribution="log_uniform", target="geom/ellipse/friction/0"
    )


PRIOR = ParameterFamily("contact", (contact("friction", 0.05, 0.8), contact("damping_ratio", 0.1, 0.9)))


def test_the_generator_draws_what_the_family_says():
    found = conditioned(PRIOR, ("friction", "damping_ratio"), "particles", (0.3, 0.3))
    pairs = generate_pairs(SMALL, ContactRanges(), seed=0, family=found.family)
    plain = generate_pairs(SMALL, ContactRanges(), seed=0)
    logs = np.log(pairs.phi)
    assert np.corrcoef(logs[:, :2].T)[0, 1] < -0.7
    assert np.abs(logs[:, 0] - np.log(0.3)).mean() < 0.15
    assert np.abs(np.log(plain.phi[:, 0]) - np.log(0.3)).mean() > 0.5  # of the ranges
    assert logs[:, 2].std() == pytest.approx(np.log(plain.phi[:, 2]).std(), rel=0.1)
    again = generate_pairs(SMALL, ContactRanges(), seed=0, family=found.family, threads=2)
    np.testing.assert_array_equal(pairs.impulse, again.impulse)


def test_families_that_the_generator_cannot_draw_from_are_refused():
    stranger = ParameterFamily("stranger", (contact("grip", 0.1, 0.2),))
    with pytest.raises(BadInput, match="'stranger' has no contact parameter of the simulator: friction, damping_ratio"):
        generate_pairs(SMALL, ContactRanges(), seed=0, family=stranger)
    wide = ParameterFamily("wide", (contact("friction", 0.1, 3.0),))
    with pytest.raises(BadInput, match=r"'friction' lies in \[0.1, 3\], beyond the range \[0.02, 1\]"):
        generate_pairs(SMALL, ContactRanges(), seed=0, family=wide)


def test_a_cart_in_mujoco_is_conditioned_and_written_to_disk(tmp_path):
    """The whole way: a MuJoCo model, noisy repeats of its commanded motion, a family in a file."""
    import mujoco

    from dexprior.worlds.rollouts import ModelRollouts

    model = mujoco.MjModel.from_xml_string(
        """<mujoco><option timestep="0.01" integrator="implicitfast"><flag contact="disable"/></option><worldbody>
        <body name="cart"><joint name="rail" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body>
        <body name="other"><joint name="other" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body></worldbody>
        <actuator><position name="servo" joint="rail" kp="120"/></actuator>
        <sensor><jointpos name="position" joint="rail"/></sensor></mujoco>"""
    )
    family = ParameterFamily(
        "cart",
        (
            Parameter(name="mass", unit="kg", low=0.5, high=2.0, target="body/cart/mass"),
            Parameter(name="damping", unit="N s/m", low=2.0, high=20.0, target="joint/rail/damping/0"),
            Parameter(name="other", unit="kg", low=0.5, high=2.0, target="body/other/mass"),
        ),
    )
    command = 0.15 * np.sin(np.arange(50) * 0.12)[:, None]
    simulate = ModelRollouts(model, family, command, sensors=("position",), every=5, worlds=128)
    truth = np.array([[1.2, 8.0, 1.5]])
    values = simulate(truth) + 0.001 * np.random.default_rng(0).standard_normal((3, 10))
    found = condition(
        family, Observations(values=values, groups=("x",) * 10), simulate=simulate, seed=0,
        settings=ConditioningConfig(sampler=QUICK, evaluations=100),
    )  # fmt: skip
    rows = found.intervals()
    for name, value in (("mass", 1.2), ("damping", 8.0)):
        low, high = rows[name]["interval"]
        assert low <= value <= high
    assert not rows["other"]["identifiable"]
    assert not found.does_not_cover
    (tmp_path / "family.json").write_text(json.dumps(found.family.to_json()))
    assert ParameterFamily.read(tmp_path / "family.json") == found.family

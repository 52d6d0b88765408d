"""Families are distributions (they integrate to one) and mean the same to a model and to a spec."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily

SCENE = """
<mujoco>
  <option impratio="2"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 .1"/>
    <body name="ball"><freejoint name="ball"/>
      <geom name="ball0" size=".1" mass="0.3"/><geom name="ball1" size=".05" pos=".1 0 0" density="500"/>
    </body>
    <body name="arm"><inertial mass="2" pos="0 0 0" diaginertia=".1 .2 .25"/>
      <joint name="hinge" damping=".5" armature=".1"/><geom name="arm" size=".1"/>
    </body>
  </worldbody>
  <actuator><position name="hinge" joint="hinge" kp="10"/></actuator>
</mujoco>
"""


def parameter(**changes) -> Parameter:
    return Parameter(**{"name": "x", "unit": "1", "low": 0.1, "high": 3.0, "target": "world/-/x"} | changes)


PARAMETERS = [
    parameter(),
    parameter(low=-2.0, high=-1.0),
    parameter(distribution="log_uniform", low=0.01, high=10.0),
    parameter(distribution="normal", low=-1.0, high=2.0, mean=0.3, std=0.5),
    parameter(distribution="normal", low=2.0, high=3.0, mean=0.0, std=1.0),
]
IDS = ["uniform", "negative", "log_uniform", "normal", "tail"]


@pytest.mark.parametrize("p", PARAMETERS, ids=IDS)
def test_density_integrates_to_one(p):
    total, _ = quad(lambda x: float(np.exp(p.log_prob(np.array([x])))[0]), p.low, p.high, limit=200)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("p", PARAMETERS, ids=IDS)
def test_there_is_no_density_outside_the_support(p):
    outside = np.array([p.low - 1e-6, p.high + 1e-6, p.low - 10, p.high + 10])
    assert (p.log_prob(outside) == -np.inf).all()
    assert np.isfinite(p.log_prob(np.array([p.low, p.high]))).all()


@pytest.mark.parametrize("p", PARAMETERS, ids=IDS)
def test_samples_follow_the_density(p):
    draws = ParameterFamily("f", (p,)).sample(np.random.default_rng(0), 2000)[:, 0]
    assert ((draws >= p.low) & (draws <= p.high)).all()

    def cdf(x):
        grid = np.linspace(p.low, p.high, 20_001)
        mass = np.cumsum(np.exp(p.log_prob(grid)))
        return np.interp(x, grid, mass / mass[-1])

    assert kstest(draws, cdf).pvalue > 0.01


@pytest.mark.parametrize("p", PARAMETERS, ids=IDS)
@given(u=st.floats(0, 1), v=st.floats(0, 1))
def test_quantiles_rise_within_the_support(p, u, v):
    a, b = p.ppf(np.array([min(u, v), max(u, v)]))
    assert p.low - 1e-12 <= a <= b <= p.high + 1e-12


def test_a_fixed_value_is_certain():
    p = parameter(low=0.7, high=0.7)
    assert (p.ppf(np.array([0.0, 0.3, 1.0])) == 0.7).all()
    np.testing.assert_array_equal(p.log_prob(np.array([0.7, 0.8])), [0.0, -np.inf])


def test_parameters_are_independent():
    family = ParameterFamily("f", (parameter(name="a"), parameter(name="b", distribution="log_uniform")))
    values = family.sample(np.random.default_rng(0), 50)
    assert values.shape == (50, 2)
    separate = sum(p.log_prob(values[:, k]) for k, p in enumerate(family.parameters))
    np.testing.assert_allclose(family.log_prob(values), separate)
    assert family.as_dict(values[3]) == {"a": values[3, 0], "b": values[3, 1]}


def test_the_seed_decides():
    family = ParameterFamily("f", tuple(PARAMETERS[:1]))
    a, b, c = (family.sample(np.random.default_rng(seed), 5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


# --- applying -----------------------------------------------------------------------------------------------


def compiled(how: str, p: Parameter, value: float) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_string(SCENE)
    family = ParameterFamily("f", (p,))
    if how == "spec":
        assert family.apply(spec, {p.name: value}) == {}
        return spec.compile()
    model = spec.compile()
    assert family.apply(model, {p.name: value}) == {}
    return model


TARGETS = [
    "geom/ball*/friction/0",
    "geom/floor/solref/0",
    "geom/ball0/solimp/2",
    "joint/hinge/damping/0",
    "joint/hinge/armature",
    "actuator/hinge/gainprm/0",
    "option/-/impratio",
    "option/-/timestep",
    "body/ball/mass",
    "body/arm/mass",
]
FIELDS = (
    "geom_friction", "geom_solref", "geom_solimp", "dof_damping", "dof_armature", "actuator_gainprm", "body_mass",
    "body_inertia",
)  # fmt: skip


@pytest.mark.parametrize("operation", ["set", "scale"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_model_and_a_spec_end_up_the_same(target, operation):
    p = parameter(target=target, operation=operation)
    one, other = compiled("model", p, 0.4), compiled("spec", p, 0.4)
    plain = mujoco.MjSpec.from_string(SCENE).compile()
    changed = target.startswith("option")
    for field in FIELDS:
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-12, err_msg=field)
        changed |= not np.array_equal(getattr(one, field), getattr(plain, field))
    assert one.opt.impratio == other.opt.impratio
    assert one.opt.timestep == other.opt.timestep
    assert changed


@pytest.mark.parametrize("how", ["model", "spec"])
def test_set_replaces_and_scale_multiplies(how):
    target = "geom/ball0/friction/0"
    before = mujoco.MjSpec.from_string(SCENE).compile().geom("ball0").friction
    assert compiled(how, parameter(target=target), 0.4).geom("ball0").friction.tolist() == [0.4, *before[1:]]
    scaled = compiled(how, parameter(target=target, operation="scale"), 0.4).geom("ball0").friction
    assert scaled.tolist() == [0.4 * before[0], *before[1:]]
    option = parameter(target="option/-/impratio", operation="scale")
    assert compiled(how, option, 3.0).opt.impratio == 6.0


@pytest.mark.parametrize("how", ["model", "spec"])
@pytest.mark.parametrize("body", ["ball", "arm"])
def test_a_heavier_body_is_the_same_shape_with_another_density(body, how):
    plain = mujoco.MjSpec.from_string(SCENE).compile().body(body)
    heavy = compiled(how, parameter(target=f"body/{body}/mass", operation="scale"), 2.5).body(body)
    np.testing.assert_allclose(heavy.mass, 2.5 * plain.mass)
    np.testing.assert_allclose(heavy.inertia, 2.5 * plain.inertia)
    np.testing.assert_allclose(heavy.ipos, plain.ipos)
    exact = compiled(how, parameter(target=f"body/{body}/mass"), 1.7).body(body)
    np.testing.assert_allclose(exact.mass, 1.7)
    np.testing.assert_allclose(exact.inertia, 1.7 / plain.mass * plain.inertia)


def test_a_glob_reaches_every_match():
    model = compiled("model", parameter(target="geom/ball?/friction/0"), 0.123)
    assert [model.geom(n).friction[0] for n in ("ball0", "ball1", "arm")] == [0.123, 0.123, 1.0]


def test_what_belongs_to_the_world_is_left_to_it():
    family = ParameterFamily("f", (parameter(name="delay"), parameter(name="mu", target="geom/floor/friction/0")))
    model = mujoco.MjModel.from_xml_string(SCENE)
    assert family.apply(model, {"delay": 0.2, "mu": 0.5}) == {"delay": 0.2}
    assert model.geom("floor").friction[0] == 0.5


@pytest.mark.parametrize("how", ["model", "spec"])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("geom/bal/friction/0", "unknown geom for parameter 'x' 'bal'; did you mean 'ball"),
        ("pair/any/friction/0", "unknown pair for parameter 'x' 'any'. Known: none"),
        ("geom/floor/fricton/0", "unknown field of geom for parameter 'x' 'fricton'; did you mean 'friction'?"),
        ("option/-/impratios", "unknown field of option for parameter 'x' 'impratios'; did you mean 'impratio'?"),
        ("geom/floor/friction/3", "parameter 'x': 'geom/floor/friction/3' counts past 3 value(s)"),
    ],
)
def test_a_target_that_is_not_there_lists_what_is(target, message, how):
    with pytest.raises((UnknownName, BadInput)) as caught:
        compiled(how, parameter(target=target), 1.0)
    assert str(caught.value).startswith(message)


def test_a_value_of_no_parameter():
    with pytest.raises(UnknownName, match=r"unknown parameter 'y'.* Known: x"):
        ParameterFamily("f", (parameter(),)).apply(mujoco.MjModel.from_xml_string(SCENE), {"y": 1.0})


# --- construction and JSON ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 2.0, "high": 1.0}, "support [2.0, 1.0] is empty or not finite"),
        ({"high": float("inf")}, "support [0.1, inf] is empty or not finite"),
        ({"distribution": "log_uniform", "low": 0.0}, "log_uniform needs a positive support, got low = 0.0"),
        ({"distribution": "normal"}, "normal needs a mean and a positive std"),
        ({"distribution": "normal", "mean": 1.0, "std": 0.0}, "normal needs a mean and a positive std"),
        ({"target": "geom/x"}, "target 'geom/x' is not ELEMENT/GLOB/FIELD[/INDEX]"),
        ({"target": "wheel/x/y"}, "one of geom, body, joint, actuator, pair, option, world"),
    ],
)
def test_impossible_parameters(changes, message):
    with pytest.raises(BadInput) as caught:
        parameter(**changes)
    assert message in str(caught.value)


def test_unknown_distribution():
    with pytest.raises(UnknownName, match="Known: uniform, log_uniform, normal"):
        parameter(distribution="gaussian")


def test_names_are_unique():
    with pytest.raises(BadInput, match="names a parameter twice: x, x"):
        ParameterFamily("f", (parameter(), parameter()))


def test_values_have_a_column_for_each_parameter():
    with pytest.raises(BadInput, match=r"family 'f': values of shape \(3, 2\), expected \(n, 1\)"):
        ParameterFamily("f", (parameter(),)).log_prob(np.zeros((3, 2)))


def test_json_and_back(tmp_path):
    from dataclasses import replace

    family = ParameterFamily("f", tuple(replace(p, name=n) for p, n in zip(PARAMETERS, IDS)))
    text = json.dumps(family.to_json())
    assert ParameterFamily.from_json(json.loads(text)) == family
    (tmp_path / "f.json").write_text(text)
    assert ParameterFamily.read(tmp_path / "f.json") == family


@pytest.mark.parametrize(
    "data", [{}, {"name": "f", "parameters": [{"name": "x"}]}, {"name": "f", "parameters": [{"y": 1}]}, []]
)
def test_json_of_something_else(data):
    with pytest.raises(BadInput, match="not a parameter family"):
        ParameterFamily.from_json(data)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match="json"):
        ParameterFamily.read(tmp_path / "none.json")
    (tmp_path / "half.json").write_text("{")
    with pytest.raises(BadInput, match="json"):
        ParameterFamily.read(tmp_path / "half.json")


def test_a_file_with_another_type_in_it_is_named(tmp_path):
    path = tmp_path / "family.json"
    good = ParameterFamily("one", (Parameter(name="mass", unit="kg", low=0.1, high=1.0, target="body/block/mass"),))
    for text in ("[]", json.dumps(good.to_json()).replace('"body/block/mass"', "null"), "\xff"):
        path.write_bytes(text.encode("latin1"))
        with pytest.raises(BadInput, match=r"family.json"):
            ParameterFamily.read(path)

"""Joint densities integrate to one, are followed by their own draws, and survive JSON to the last bit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Copula, Flow, Independent, Parameter, ParameterFamily, Particles, fit_density
from dexprior.families.densities import density_from_json

A = Parameter(name="a", unit="1", low=0.1, high=3.0, target="world/-/a")
B = Parameter(name="b", unit="1", low=0.5, high=8.0, distribution="log_uniform", target="world/-/b")
C = Parameter(name="c", unit="1", low=0.0, high=1.0, transform="logit", target="world/-/c")
D = Parameter(name="d", unit="1", low=-1.0, high=2.0, distribution="normal", mean=0.2, std=0.6, target="world/-/d")


def banana(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Weighted values of (a, b): bent, correlated, and off the middle of both supports."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal(n), rng.standard_normal(n)
    a = A.from_line(-0.4 + 0.5 * first)
    b = B.from_line(0.6 * first + 0.35 * first**2 + 0.25 * second)
    return np.stack([a, b], axis=1), rng.uniform(0.2, 1.0, n)


def two(kind: str) -> ParameterFamily:
    values, weights = banana()
    return ParameterFamily("two", (A, B), fit_density(kind, (A, B), values, weights))


KINDS = ["independent", "copula", "particles", "flow"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_joint_density_integrates_to_one(kind):
    family = two(kind)
    # even steps on the line, where what is smooth is also far from the ends; the cells have their size in values
    a, b = (p.from_line(np.linspace(-6.0, 6.0, 241)) for p in family.parameters)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1)
    density = np.exp(family.log_prob(grid.reshape(-1, 2))).reshape(241, 241)
    assert np.trapezoid(np.trapezoid(density, b, axis=1), a) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_moments_of_the_density(kind):
    family = two(kind)
    a, b = (p.from_line(np.linspace(-6.0, 6.0, 241)) for p in family.parameters)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1)
    mass = np.exp(family.log_prob(grid.reshape(-1, 2))).reshape(241, 241)
    mass *= np.outer(np.gradient(a), np.gradient(b))
    mass /= mass.sum()
    draws = family.sample(np.random.default_rng(3), 20_000)
    for k, axis in enumerate((a, b)):
        marginal = mass.sum(axis=1 - k)
        mean = marginal @ axis
        std = np.sqrt(marginal @ (axis - mean) ** 2)
        assert draws[:, k].mean() == pytest.approx(mean, abs=0.03 * std)
        assert draws[:, k].std() == pytest.approx(std, rel=0.03)
    product = (np.log(grid[..., 0]) * np.log(grid[..., 1]) * mass).sum()
    found = (np.log(draws[:, 0]) * np.log(draws[:, 1])).mean()
    assert found == pytest.approx(product, abs=0.02)


@pytest.mark.parametrize("kind", ["particles", "flow"])
def test_a_density_is_close_to_the_values_that_it_was_fitted_to(kind):
    values, weights = banana()
    family = two(kind)
    draws = family.sample(np.random.default_rng(1), 20_000)
    for k, p in enumerate((A, B)):
        z, drawn = p.to_line(values[:, k]), p.to_line(draws[:, k])
        mean = np.average(z, weights=weights)
        std = np.sqrt(np.average((z - mean) ** 2, weights=weights))
        assert drawn.mean() == pytest.approx(mean, abs=0.05 * std)
        assert drawn.std() == pytest.approx(std, rel=0.05)
    fresh, _ = banana(seed=7, n=2000)
    apart = ParameterFamily("apart", (A, B)).log_prob(fresh).mean()
    copula = two("copula").log_prob(fresh).mean()  # of the priors' marginals
    assert family.log_prob(fresh).mean() > max(apart, copula) + 0.5


def test_a_flow_of_normal_values_is_their_normal():
    rng = np.random.default_rng(0)
    root = np.array([[0.3, 0.0], [-0.2, 0.15]])
    z = rng.standard_normal((4000, 2)) @ root.T + [0.2, -0.5]
    values = np.stack([A.from_line(z[:, 0]), B.from_line(z[:, 1])], axis=1)
    flow = ParameterFamily("f", (A, B), fit_density("flow", (A, B), values, np.ones(4000)))
    mean, covariance = z.mean(axis=0), np.cov(z.T, bias=True)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (z - mean).T)
    exact = -0.5 * (white**2).sum(axis=0) - 0.5 * np.linalg.slogdet(covariance)[1] - np.log(2 * np.pi)
    exact += A.log_slope(values[:, 0]) + B.log_slope(values[:, 1])
    assert np.abs(flow.log_prob(values) - exact).mean() < 0.05


def test_a_copula_keeps_the_marginals_and_orders_draws_together():
    from scipy.stats import kstest, spearmanr

    family = ParameterFamily("f", (A, D), Copula(("a", "d"), np.array([[1.0, 0.8], [0.8, 1.0]])))
    draws = family.sample(np.random.default_rng(2), 4000)
    for k, p in enumerate((A, D)):
        assert kstest(p.cdf(draws[:, k]), "uniform").pvalue > 0.01
    # Pearson's 2 sin(pi rho_s / 6) of a Gaussian copula
    assert 2 * np.sin(np.pi * spearmanr(*draws.T).statistic / 6) == pytest.approx(0.8, abs=0.03)


def test_a_copula_without_correlation_is_independent():
    apart = ParameterFamily("f", (A, D))
    together = replace(apart, density=Copula(("a", "d"), np.eye(2)))
    values = apart.sample(np.random.default_rng(0), 50)
    np.testing.assert_allclose(together.log_prob(values), apart.log_prob(values), atol=1e-9)


def test_smoothed_particles_keep_mean_and_covariance():
    values, weights = banana(n=300)
    particles = Particles(("a", "b"), values, weights)
    assert 0.2 < particles.bandwidth < 0.5
    assert particles.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    draws = particles.sample((A, B), np.random.default_rng(0), 40_000)
    z = np.stack([A.to_line(values[:, 0]), B.to_line(values[:, 1])])
    drawn = np.stack([A.to_line(draws[:, 0]), B.to_line(draws[:, 1])])
    np.testing.assert_allclose(drawn.mean(axis=1), np.average(z, axis=1, weights=weights), atol=0.01)
    wanted = np.cov(z, aweights=weights, bias=True)
    np.testing.assert_allclose(np.cov(drawn), wanted, rtol=0.06, atol=0.004)


def test_plain_resampling_draws_particles_as_often_as_they_weigh():
    values = np.array([[0.5, 1.0], [1.0, 2.0], [2.0, 1.5], [2.5, 7.0]])
    particles = Particles(("a", "b"), values, np.array([4.0, 3.0, 0.0, 3.0]), resampling="plain")
    draws = particles.sample((A, B), np.random.default_rng(0), 10_000)
    shares = [(draws == row).all(axis=1).mean() for row in values]
    np.testing.assert_allclose(shares, [0.4, 0.3, 0.0, 0.3], atol=0.02)


@pytest.mark.parametrize("kind", ["copula", "particles", "flow"])
def test_what_a_density_does_not_name_stays_independent(kind):
    family = ParameterFamily("three", (D, A, B), two(kind).density)
    values = family.sample(np.random.default_rng(0), 500)
    apart = ParameterFamily("d", (D,)).log_prob(values[:, :1])
    np.testing.assert_allclose(family.log_prob(values), apart + two(kind).log_prob(values[:, 1:]))
    longer = family.extended(C)
    assert longer.density == family.density
    more = longer.sample(np.random.default_rng(0), 500)
    assert ((more[:, 3] >= 0) & (more[:, 3] <= 1)).all()
    assert np.isfinite(longer.log_prob(more)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_outside_the_support(kind):
    family = two(kind)
    outside = np.array([[0.05, 2.0], [1.0, 9.0], [3.1, 0.1], [np.nan, 1.0]])
    assert (family.log_prob(outside) == -np.inf).all()
    assert np.isfinite(family.log_prob(np.array([[0.1, 0.5], [3.0, 8.0]]))).all()
    draws = family.sample(np.random.default_rng(0), 2000)
    assert (draws >= [0.1, 0.5]).all()
    assert (draws <= [3.0, 8.0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_density_survives_json_and_the_seed_decides(kind, tmp_path):
    family = two(kind)
    (tmp_path / "f.json").write_text(json.dumps(family.to_json()))
    again = ParameterFamily.read(tmp_path / "f.json")
    assert again == family
    assert hash(again) == hash(family)
    ours, theirs = (f.sample(np.random.default_rng(5), 20) for f in (family, again))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(family.log_prob(ours), again.log_prob(ours))


def test_an_independent_family_is_what_it_was():
    """No new key in its JSON, and the same uniform numbers for the same draws."""
    family = ParameterFamily("f", (A, B, D))
    assert set(family.to_json()) == {"name", "parameters"}
    assert "transform" not in family.to_json()["parameters"][0]
    u = np.random.default_rng(0).random((5, 3))
    expected = np.stack([p.ppf(u[:, k]) for k, p in enumerate(family.parameters)], axis=1)
    np.testing.assert_array_equal(family.sample(np.random.default_rng(0), 5), expected)
    assert family.density == Independent()


# --- the line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [A, B, C, D, replace(B, transform="logit")], ids=["identity", "log", "logit", "d", "b"])
def test_the_line_and_back(p):
    x = p.ppf(np.linspace(0.01, 0.99, 50))
    z = p.to_line(x)
    assert (np.diff(z) > 0).all()
    np.testing.assert_allclose(p.from_line(z), x, rtol=1e-9)
    step = 1e-6 * (p.high - p.low)
    numeric = (p.to_line(x + step) - p.to_line(x - step)) / (2 * step)
    np.testing.assert_allclose(p.log_slope(x), np.log(numeric), atol=1e-4)
    assert np.isfinite(p.to_line(np.array([p.low, p.high]))).all()


def test_a_parameter_that_is_uniform_on_its_scale_is_standard_normal_on_the_line():
    from scipy.stats import norm

    for p in (A, B):
        x = p.ppf(np.linspace(0.001, 0.999, 200))
        np.testing.assert_allclose(p.log_prob(x) - p.log_slope(x), norm.logpdf(p.to_line(x)), atol=1e-9)


def test_a_transform_is_known_and_fits_the_support():
    assert (A.scale, B.scale, C.scale) == ("identity", "log", "logit")
    with pytest.raises(UnknownName, match=r"unknown transform of parameter 'a' 'probit'. Known: identity, log, logit"):
        replace(A, transform="probit")
    with pytest.raises(BadInput, match="transform 'log' needs a positive support, got low = -1"):
        replace(D, transform="log")


# --- refusals -----------------------------------------------------------------------------------------------

VALUES, WEIGHTS = banana(n=20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Particles(("a", "b"), VALUES, 0 * WEIGHTS), "particles of a, b: all 20 weights are zero"),
        (lambda: Particles(("a", "b"), VALUES, WEIGHTS - 0.5), r"weight -0\.\d+ is negative"),
        (lambda: Particles(("a", "b"), VALUES[:, :1], WEIGHTS), r"values has shape \(20, 1\), expected \(n, 2\)"),
        (lambda: Particles(("a", "b"), VALUES, WEIGHTS[:3]), r"weights has shape \(3,\), expected \(20,\)"),
        (lambda: Particles(("a", "b"), np.nan * VALUES, WEIGHTS), r"values holds 40 value\(s\) that are not finite"),
        (lambda: Particles((), VALUES, WEIGHTS), "particles: names .* one or more, each once"),
        (lambda: Copula(("a", "b"), np.array([[1.0, 0.5], [0.4, 1.0]])), "a correlation is symmetric"),
        (lambda: Copula(("a", "b"), np.ones((2, 2))), "its smallest eigenvalue .* is not positive"),
        (lambda: ParameterFamily("f", (A, B), Particles(("a", "b"), VALUES + 5, WEIGHTS)), "'a' = .* outside the supp"),
        (lambda: ParameterFamily("f", (A, B), Particles(("a", "b"), VALUES[:1], WEIGHTS[:1])), "span 0 of 2 dimensi"),
        (
            lambda: ParameterFamily("f", (A, replace(B, high=0.5)), Copula(("a", "b"), np.eye(2))),
            "copula: 'b' is fixed to 0.5 and cannot depend on others",
        ),
    ],
)
def test_impossible_densities(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_names_of_a_density_and_its_kind_are_known():
    with pytest.raises(UnknownName, match=r"unknown parameter of 'f' in its density 'b'. Known: a"):
        ParameterFamily("f", (A,), Particles(("a", "b"), VALUES, WEIGHTS))
    with pytest.raises(UnknownName, match="unknown density 'kde'"):
        fit_density("kde", (A, B), VALUES, WEIGHTS)
    with pytest.raises(UnknownName, match=r"unknown resampling 'rough'. Known: smoothed, plain"):
        Particles(("a", "b"), VALUES, WEIGHTS, resampling="rough")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "copula", "names": ["a", "b"]}, "not a density of kind 'copula': .*correlation"),
        ({"kind": "independent", "names": ["a"]}, "not a density of kind 'independent': .*names"),
        ({"kind": "copula", "names": ["a"], "correlation": [[1.0]], "colour": 1}, "unexpected keyword .*colour"),
        ({"kind": "copula", "names": ["a"], "correlation": [["x"]]}, "correlation is no array of numbers"),
        ({"kind": "flow", "names": ["a"], "mean": [0.0], "std": [0.0], "components": []}, "deviation is not positive"),
        ({"kind": "flow", "names": ["a"], "mean": [0.0], "std": [1.0], "components": []}, "0 components for 1 param"),
        ({"kind": "flow", "names": ["a"], "mean": [0.0], "std": [1.0], "components": [{"slope": 1.0}]}, "heights"),
        ({}, "has no kind; known are independent, copula, particles, flow"),
        ([], "has no kind"),
    ],
)
def test_json_of_no_density(data, message):
    with pytest.raises(BadInput, match=message):
        density_from_json(data)


def test_json_of_an_unknown_density():
    with pytest.raises(UnknownName, match="unknown density 'vine'"):
        density_from_json({"kind": "vine"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slope": 0.0}, "a positive slope"),
        ({"heights": (-1.0,)}, "no negative height"),
        ({"widths": (0.0,)}, "a positive width for each height"),
        ({"polynomial": (0.0, 1.0)}, "component 'a' has 2 coefficients; a quadratic of 0 coordinates has 1"),
    ],
)
def test_impossible_flows(changes, message):
    from dexprior.families.densities import FlowComponent

    component = {"slope": 1.0, "heights": (0.5,), "centres": (0.0,), "widths": (1.0,), "polynomial": (0.0,)}
    with pytest.raises(BadInput, match=message):
        Flow(("a",), np.zeros(1), np.ones(1), (FlowComponent(**component | changes),))

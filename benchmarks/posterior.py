"""Whether conditioned families are as sure as they may be: simulation-based calibration, flags, and verdicts.

(a) A linear simulator with normal errors, whose posterior is known in closed form; (b) a cart on a rail in MuJoCo that
a position servo drives, with mass, dry friction, damping and delay, beside a body that nothing touches. Each trial
draws parameters from the prior, makes noisy repeats, conditions the prior on them, and ranks the drawn parameters among
the posterior's draws. Then the cart's parameters are moved out of the family, one at a time. Prints JSON lines.

    python benchmarks/posterior.py [linear|cart|outside ...] [trials=300]
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np

from dexprior.families import Parameter, ParameterFamily
from dexprior.stats import calibrate, posterior_ranks
from dexprior.transfer.conditioning import Conditioned, ConditioningConfig, Observations, SamplerConfig, condition
from dexprior.worlds.rollouts import ModelRollouts

SEED = 0
DRAWS = 99  # of a posterior that a truth is ranked among
REPEATS = 3
SETTINGS = ConditioningConfig(sampler=SamplerConfig(particles=128, unmoved=0.05, moves=20), evaluations=160)
"""A quarter of the default population and fewer moves: hundreds of posteriors are drawn."""

SLOPES = np.array([[1.0, 0.5, 0.5, 0.0], [0.3, -1.0, -1.0, 0.0], [0.2, 0.3, 0.3, 0.0], [1.0, 1.0, 1.0, 0.0]])
LINEAR_NOISE = 0.2
LINEAR_STD = 0.8
LINEAR = ParameterFamily(
    "linear",
    tuple(
        Parameter(
            name=name, unit="1", low=-6.0, high=6.0, distribution="normal", mean=0.0, std=LINEAR_STD,
            target=f"world/-/{name}",
        )
        for name in ("alone", "one of two", "other of two", "unseen")
    ),
)  # fmt: skip

CART = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast"><flag contact="disable"/></option>
  <worldbody>
    <body name="cart"><joint name="rail" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body>
    <body name="other" pos="0 1 0"><joint name="other" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body>
  </worldbody>
  <actuator><position name="servo" joint="rail" kp="120"/></actuator>
  <sensor><jointpos name="position" joint="rail"/></sensor>
</mujoco>
"""
CART_NOISE = 0.001  # [m]
CART_FAMILY = ParameterFamily(
    "cart",
    (
        Parameter(name="mass", unit="kg", low=0.5, high=2.0, distribution="log_uniform", target="body/cart/mass"),
        Parameter(name="friction", unit="N", low=0.5, high=4.0, target="joint/rail/frictionloss"),
        Parameter(
            name="damping", unit="N s/m", low=2.0, high=20.0, distribution="log_uniform", target="joint/rail/damping/0"
        ),
        Parameter(name="actuator_delay", unit="s", low=0.0, high=0.06, target="world/-/actuator_delay"),
        Parameter(
            name="other_mass", unit="kg", low=0.5, high=2.0, distribution="log_uniform", target="body/other/mass"
        ),
    ),
)
OUTSIDE = {"mass": (0.38, 2.6), "friction": (0.1, 5.0), "damping": (1.2, 30.0), "actuator_delay": (None, 0.08)}
"""Values beyond the lower and the upper end; there is no negative delay."""


def cart(worlds: int, family: ParameterFamily = CART_FAMILY) -> ModelRollouts:
    """Positions at 16 times of 0.8 s of a command that turns round, fast and slowly."""
    t = np.arange(80) * 0.01
    command = 0.15 * np.sin(2 * np.pi * 2.0 * t) + 0.1 * np.sin(2 * np.pi * 0.7 * t)
    model = mujoco.MjModel.from_xml_string(CART)
    return ModelRollouts(model, family, command[:, None], sensors=("position",), every=5, worlds=worlds)


def main(*arguments: str) -> None:
    """Measure and print."""
    trials = next((int(a.removeprefix("trials=")) for a in arguments if a.startswith("trials=")), 300)
    chosen = [a for a in arguments if "=" not in a] or ["linear", "cart", "outside"]
    if "linear" in chosen:
        _calibrate("linear", LINEAR, lambda v: v @ SLOPES.T, trials, np.full(4, LINEAR_NOISE))
    if "cart" in chosen:
        _calibrate("cart", CART_FAMILY, cart(SETTINGS.sampler.particles), trials, None)
    if "outside" in chosen:
        _outside(max(trials // 20, 2))


def observe(
    simulate: Callable[[np.ndarray], np.ndarray],
    truth: np.ndarray,
    size: float,
    rng: np.random.Generator,
    noise: np.ndarray | None = None,
) -> Observations:
    """Repeats with normal errors of one size, which is declared or not."""
    clean = simulate(truth[None])[0]
    values = clean + size * rng.standard_normal((REPEATS, len(clean)))
    return Observations(values=values, groups=("all",) * len(clean), noise=noise)


def exact(observations: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the linear simulator's posterior; the supports' ends are 7 standard deviations away."""
    precision = observations.repeats * SLOPES.T @ SLOPES / LINEAR_NOISE**2 + np.eye(4) / LINEAR_STD**2
    covariance = np.linalg.inv(precision)
    return covariance @ SLOPES.T @ observations.values.sum(axis=0) / LINEAR_NOISE**2, covariance


def _calibrate(
    what: str,
    family: ParameterFamily,
    simulate: Callable[[np.ndarray], np.ndarray],
    trials: int,
    noise: np.ndarray | None,
) -> None:
    rng = np.random.default_rng([SEED, len(family.parameters)])
    truth = family.sample(rng, trials)
    drawn, flags, spreads, closeness, covered = [], [], [], [], []
    verdicts: Counter[str] = Counter()
    simulations, start = 0, time.perf_counter()
    for k in range(trials):
        size = LINEAR_NOISE if noise is not None else CART_NOISE
        seen = observe(simulate, truth[k], size, rng, noise)
        found = condition(family, seen, simulate=simulate, settings=SETTINGS, seed=k)
        drawn.append(found.values[rng.permutation(len(found.values))[:DRAWS]])
        flags.append([p.identifiable for p in found.family.parameters])
        spreads.append(found.spread)
        covered.append(_covered(found, truth[k]))
        verdicts.update(_kind(text) for text in found.verdicts)
        verdicts["any"] += found.does_not_cover
        simulations += found.simulations
        if noise is not None:
            mean, covariance = exact(seen)
            std = np.sqrt(covariance.diagonal())
            closeness.append([(found.values.mean(axis=0) - mean) / std, found.values.std(axis=0) / std])
        if sys.stderr.isatty() or k % 50 == 49:
            print(f"{what}: {k + 1} of {trials}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    ranks = posterior_ranks(truth, np.array(drawn), seed=SEED)
    tests = calibrate(family.names, ranks, draws=DRAWS, bins=20)
    told = np.array(flags, dtype=float)
    inside = np.array(covered)
    for k, name in enumerate(family.names):
        row = {
            "name": f"{what}: {name}", **tests.as_dict()[name], "told": told[:, k].mean(),
            "spread": float(np.median(spreads, axis=0)[k]),
            "coverage_95": float(np.nanmean(inside[:, k])) if told[:, k].any() else None,
        }  # fmt: skip
        if closeness:
            apart = np.array(closeness)[:, :, k]
            row |= {"mean_off": float(np.sqrt((apart[:, 0] ** 2).mean())), "std_ratio": float(apart[:, 1].mean())}
        print(json.dumps(row), flush=True)
    print(json.dumps({
        "name": f"{what}: false verdicts", "trials": trials, **verdicts, "simulations": simulations / trials,
        "seconds": round((time.perf_counter() - start) / trials, 2),
    }), flush=True)  # fmt: skip


def _outside(trials: int) -> None:
    """The truth is beyond one end: is that said, and of which parameter?"""
    rng = np.random.default_rng([SEED, 99])
    simulate = cart(SETTINGS.sampler.particles)
    for k, name in enumerate(CART_FAMILY.names[:4]):
        for side, value in zip(("lower", "upper"), OUTSIDE[name]):
            if value is None:
                continue
            said: Counter[str] = Counter()
            for trial, truth in enumerate(CART_FAMILY.sample(rng, trials)):
                truth[k] = value
                seen = observe(simulate, truth, CART_NOISE, rng)
                found = condition(CART_FAMILY, seen, simulate=simulate, settings=SETTINGS, seed=trial)
                said["not covered"] += found.does_not_cover
                said["named"] += any(f"{name!r} is pressed against the {side}" in text for text in found.verdicts)
                said["p below .01"] += found.p_value is not None and found.p_value < 0.01
            print(json.dumps({"name": f"outside: {name} = {value}", "trials": trials, **said}), flush=True)


def _covered(found: Conditioned, truth: np.ndarray) -> list[float]:
    rows = found.intervals().values()
    return [
        np.nan if row["interval"] is None else float(row["interval"][0] <= x <= row["interval"][1])
        for row, x in zip(rows, truth)
    ]


def _kind(text: str) -> str:
    return "misfit" if "no member" in text else text.partition("'")[2].partition("'")[0] + " pressed"


if __name__ == "__main__":
    main(*sys.argv[1:])

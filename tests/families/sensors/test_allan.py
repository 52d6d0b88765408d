"""Allan deviation against allantools, and the terms that an inertial sensor is made of."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.families.sensors import Imu, ImuConfig, InertialConfig, allan_terms, allan_variance, averaging

allantools = pytest.importorskip("allantools", reason="allantools is a development dependency")
_DT = 0.01


def _read(n: int, samples: int, **terms: float) -> np.ndarray:
    """Channels (n * 3, samples) of one gyroscope."""
    sensor = Imu(ImuConfig(gyroscope=InertialConfig(**terms), accelerometer=InertialConfig()), n, _DT)
    return sensor.run(np.zeros((n, samples, 6)))[..., :3].transpose(0, 2, 1).reshape(-1, samples)


@pytest.mark.parametrize("terms", [{"white": 1e-3}, {"walk": 1e-3}, {"instability": 1e-3, "longest": 20.0}])
def test_values_are_those_of_allantools(terms):
    rate = _read(1, 6000, **terms)[0] + 0.3
    lengths = averaging(6000)
    ours = np.sqrt(allan_variance(rate, _DT, lengths))
    taus, theirs, _, _ = allantools.oadev(rate, rate=1 / _DT, data_type="freq", taus=lengths * _DT)
    assert taus == pytest.approx(lengths * _DT)
    assert ours == pytest.approx(theirs, rel=1e-6)  # 5 % were asked for


@pytest.mark.parametrize(
    ("terms", "column", "slope"),
    [({"white": 2e-3}, 1, -0.5), ({"walk": 3e-3}, 3, 0.5), ({"instability": 1e-3, "longest": 20.0}, 2, 0.0)],
)
def test_each_term_has_its_slope_and_its_size(terms, column, slope):
    rate = _read(12, 12000, **terms)
    lengths = averaging(12000, longest=0.03)
    deviation = np.sqrt(allan_variance(rate, _DT, lengths).mean(axis=0))
    tau = lengths * _DT
    inner = tau >= 0.1
    assert np.polyfit(np.log(tau[inner]), np.log(deviation[inner]), 1)[0] == pytest.approx(slope, abs=0.05)
    expected = np.sqrt(allan_terms(tau)[:, column]) * next(iter(terms.values()))
    assert deviation[inner] == pytest.approx(expected[inner], rel=0.05)


def test_quantisation_falls_with_the_averaging_time():
    ramp = np.cumsum(np.random.default_rng(0).normal(size=20000)) * 0.5
    angle = np.round(ramp / 0.5) * 0.5  # a rate made from a rounded angle, with Q = step / sqrt(12)
    lengths = averaging(19999, longest=0.0003)
    extra = allan_variance(np.diff(angle) / _DT, _DT, lengths) - allan_variance(np.diff(ramp) / _DT, _DT, lengths)
    q = 0.5 / np.sqrt(12)
    assert np.sqrt(extra / allan_terms(lengths * _DT)[:, 0]) == pytest.approx(np.full(len(lengths), q), rel=0.1)


def test_bad_signals_are_refused():
    with pytest.raises(BadInput, match="not finite"):
        allan_variance(np.array([0.0, np.nan] * 20), _DT, np.array([1]))
    with pytest.raises(BadInput, match="averaging lengths"):
        allan_variance(np.zeros(40), _DT, np.array([30]))
    with pytest.raises(BadInput, match="at least 20"):
        averaging(5)

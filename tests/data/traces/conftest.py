"""A trace with channels of several rates, both clocks, every kind, and events."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.types import Channel, Trace


def channel(rng, n, width, step, unit, frame, kind="measured", late=0.0) -> Channel:
    """Times have nine decimals, so that formats of whole nanoseconds can hold them."""
    t = np.round(1.0 + np.arange(n) * step, 9)
    value = rng.normal(size=(n, width))
    return Channel(t=t, t_host=np.round(t + 100.0 + late, 9), value=value, unit=unit, frame=frame, kind=kind)


@pytest.fixture
def trace() -> Trace:
    rng = np.random.default_rng(0)
    return Trace(
        channels={
            "tool_pose": channel(rng, 50, 7, 0.02, "m, 1", "base"),
            "command": channel(rng, 100, 2, 0.01, "rad", "joint", "commanded"),
            "measured": channel(rng, 200, 2, 0.005, "rad", "joint", late=0.003),
            "speed": channel(rng, 200, 2, 0.005, "rad/s", "joint", late=0.003),
            "wrench": channel(rng, 500, 6, 0.002, "N, N m", "sensor"),
            "twist": channel(rng, 50, 6, 0.02, "m/s, rad/s", "base"),
            "touch": channel(rng, 40, 4, 0.025, "N", "pads"),
            "timing": channel(rng, 100, 1, 0.01, "s", "-"),
            "slip": channel(rng, 50, 1, 0.02, "m/s", "tcp", "privileged"),
        },
        panel_hash="abc",
        info={
            "joints": ["shoulder", "elbow"],
            "events": [[1.0, 101.0, "contact"], [1.0, 101.0, 'slip, "first" of 2']],
            "success": True,
        },
    )


def assert_equal(a: Trace, b: Trace) -> None:
    """To the last bit, with meanings, panel and info."""
    assert list(a.channels) == list(b.channels)
    for name in a.channels:
        for part in ("t", "t_host", "value"):
            np.testing.assert_array_equal(getattr(a[name], part), getattr(b[name], part), err_msg=f"{name}.{part}")
        assert (a[name].unit, a[name].frame, a[name].kind) == (b[name].unit, b[name].frame, b[name].kind)
    assert a.panel_hash == b.panel_hash
    assert a.info == b.info


@pytest.fixture
def same():
    return assert_equal

"""Two clocks a channel: what is refused, what is noted, what passes."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.traces import check_clocks, events_of, find_gaps
from dexprior.errors import BadInput
from dexprior.types import Channel


def ticking(t, t_host=None) -> dict[str, Channel]:
    t = np.asarray(t, dtype=np.float64)
    host = t if t_host is None else np.asarray(t_host, dtype=np.float64)
    return {"force": Channel(t=t, t_host=host, value=np.zeros((len(t), 1)), unit="N", frame="-", kind="measured")}


T = np.arange(3000) * 0.01


def test_clocks_of_any_offset_with_the_jitter_of_a_network_pass():
    rng = np.random.default_rng(0)
    late = np.maximum.accumulate(T + 1e6 + rng.uniform(0, 0.1, len(T)))
    assert check_clocks(ticking(T, late)) == []
    assert check_clocks(ticking(T)) == []
    assert check_clocks(ticking([])) == []
    assert check_clocks(ticking([1.0])) == []


def test_blocks_that_arrive_together_share_a_host_time():
    assert check_clocks(ticking(T, np.ceil(T * 10) / 10)) == []


def test_a_host_clock_that_goes_back_is_refused():
    host = T.copy()
    host[7] = host[5]
    with pytest.raises(BadInput, match=r"'force'.*goes back from 0\.060000 to 0\.050000 s at sample 7"):
        check_clocks(ticking(T, host))


@pytest.mark.parametrize("by", [0.3, 5.0])
def test_a_jump_of_either_clock_is_refused_with_its_size(by):
    host, source = T.copy(), T.copy()
    host[1500:] += by
    with pytest.raises(BadInput, match=rf"jump against each other by \+{by:.3f} s at sample 1500 \(t = 15\.000 s\)"):
        check_clocks(ticking(T, host))
    source[1500:] += by
    with pytest.raises(BadInput, match=rf"by -{by:.3f} s at sample 1500"):
        check_clocks(ticking(source, T))


def test_a_drift_is_noted_and_another_unit_refused():
    (note,) = check_clocks(ticking(T, T * 1.002))
    assert "drifts against the host's by 2000 ppm" in note
    assert check_clocks(ticking(T, T * 1.0001)) == []
    with pytest.raises(BadInput, match=r"29\.990 s pass on the source's clock and 35\.988 s on the host's"):
        check_clocks(ticking(T, T * 1.2))
    with pytest.raises(BadInput, match=r"29990.000 s pass"):  # milliseconds for seconds
        check_clocks(ticking(1e3 * T, T))


def test_a_pause_of_both_clocks_is_a_gap_and_no_jump():
    t = T.copy()
    t[100:] += 2.0
    t[200:] += 0.5
    (note,) = check_clocks(ticking(t))
    assert "2 gap(s), the longest of 2.010 s from t = 0.990 s" in note
    gaps = find_gaps(ticking(t)["force"])
    assert (gaps.count, gaps.longest) == (2, pytest.approx(2.01))
    assert find_gaps(ticking(T)["force"]).count == 0


@pytest.mark.parametrize(
    "row", [["a", 1, "x"], [1.0, "x"], [1.0, 2.0, 3.0], [float("nan"), 1.0, "x"], 7, [1.0, None, "x"]]
)
def test_an_event_that_is_none_is_named(row):
    with pytest.raises(BadInput, match="event 1 is"):
        events_of({"events": [[0.0, 0.0, "fine"], row]})


def test_no_events_are_no_error():
    assert events_of({}) == ()
    with pytest.raises(BadInput, match="expected rows"):
        events_of({"events": 3})

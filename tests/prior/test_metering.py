"""What a training costs, told in its log."""

from __future__ import annotations

import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dexprior.prior import metering
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.metering import Meter, flops_of_step
from dexprior.prior.training import PriorConfig, PriorData, batch_losses, draw_batch

CPU = torch.device("cpu")


@pytest.mark.parametrize("step", [0, 1])
def test_the_flops_of_a_step_are_those_of_its_computation(tiny_stack, step):
    config = PriorConfig(batch=3, video_clips=1, video_window=4)
    data = PriorData(tiny_stack, config.patch)
    model = JointDenoiser(
        frames=data.motion.shape[1], size=32, width=32, layers=1, heads=2, channels=10, fps=tiny_stack.fps
    )
    batch = draw_batch(data, config, 0, step, 0, CPU)
    before = torch.get_rng_state()
    counted = flops_of_step(model, batch, batch_losses)
    assert all(weight.grad is None for weight in model.parameters())
    with FlopCounterMode(display=False) as counter:
        sum(batch_losses(model, batch).values()).backward()
    assert counted == counter.get_total_flops() > 1e6
    torch.set_rng_state(before)


def test_rates_are_of_a_window_of_steps(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    monkeypatch.setattr(metering, "peak_flops", lambda device: 1000.0)
    asked = []
    meter = Meter(CPU, 6, lambda step: asked.append(step) or (400 if step % 2 == 0 else 100), 2)
    rows = []
    for step in range(40):
        seconds[0] += 0.5 if step < 20 else 1.0
        rows.append(meter.row(step))
    assert [k for k, row in enumerate(rows) if row] == [19, 39]
    first, second = (row for row in rows if row)
    assert (first["samples_per_s"], second["samples_per_s"]) == (12.0, 6.0)
    assert (first["utilisation"], second["utilisation"]) == (0.5, 0.25)
    assert asked == [0, 1]
    assert 0.05 < first["memory_gib"] < 100


def test_without_a_known_peak_nothing_is_counted():
    meter = Meter(CPU, 6, lambda step: pytest.fail("asked"), 1)
    (row,) = [row for step in range(20) if (row := meter.row(step))]
    assert set(row) == {"samples_per_s", "memory_gib"}

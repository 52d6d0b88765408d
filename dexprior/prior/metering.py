"""What a training costs: samples a second, memory, and the share of the device's arithmetic that it uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch.utils.flop_counter import FlopCounterMode

from dexprior.prior.denoiser import JointDenoiser

__all__ = ["PEAK_FLOPS", "Meter", "flops_of_step", "peak_flops"]

PEAK_FLOPS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense bf16 multiplications and additions a second, from the vendors' data sheets, by what the device's name has."""
_WINDOW = 20  # steps between two rows


def peak_flops(device: torch.device) -> float | None:
    """The device's published peak; None where it is not known, as of any CPU."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((value for key, value in PEAK_FLOPS.items() if key in name), None)


def flops_of_step(
    model: JointDenoiser, batch: dict[str, Any], losses: Callable[[JointDenoiser, dict[str, Any]], dict[str, Any]]
) -> int:
    """Multiplications and additions of a forward and a backward pass, by torch's FlopCounterMode.

    They are counted on the meta device: nothing is computed, and nothing of the model or of any generator changes.
    """
    twin = JointDenoiser.from_config(model.config).to("meta")
    with FlopCounterMode(display=False) as counter:
        sum(losses(twin, _meta(batch)).values()).backward()  # type: ignore[union-attr]
    return counter.get_total_flops()


def _meta(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _meta(one) for name, one in value.items()}
    return value.to("meta") if isinstance(value, torch.Tensor) else value


class Meter:
    """Rows about the machine, every 20 steps.

    `samples_per_s`: motion clips of all ranks. `memory_gib`: on a GPU the peak of what torch had allocated, elsewhere
    what the process has resident. `utilisation`: the model's FLOPs over the device's published peak, where it is known.

    Args:
        device: of this rank.
        samples: motion clips in a step, of all ranks.
        flops: of this rank in a step of a number; asked once for each kind of step.
        every: a number of steps after which kinds of steps come again.
    """

    def __init__(self, device: torch.device, samples: int, flops: Callable[[int], int], every: int) -> None:
        self._device, self._samples, self._flops, self._every = device, samples, flops, every
        self._peak = peak_flops(device)
        self._counted: dict[bool, int] = {}
        self._begin()

    def row(self, step: int) -> dict[str, float]:
        """After a step (from 0): what the last ones cost; nothing between two windows."""
        self._steps += 1
        if self._peak is not None:
            kind = step % self._every == 0
            if kind not in self._counted:
                self._counted[kind] = self._flops(step)
            self._done += self._counted[kind]
        if self._steps < _WINDOW:
            return {}
        seconds = time.perf_counter() - self._began
        row = {"samples_per_s": self._steps * self._samples / seconds, "memory_gib": self._memory() / 2**30}
        if self._peak is not None:
            row["utilisation"] = self._done / seconds / self._peak
        self._begin()
        return row

    def _begin(self) -> None:
        self._steps, self._done, self._began = 0, 0, time.perf_counter()

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return int(psutil.Process().memory_info().rss)

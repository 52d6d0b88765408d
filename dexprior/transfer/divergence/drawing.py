"""Real signals over the band of the simulated family, with what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dexprior.transfer.divergence.detector import Divergence, DivergenceDetector
from dexprior.transfer.divergence.signals import Signals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_divergence"]

_MOST = 6  # channels


def draw_divergence(
    detector: DivergenceDetector, real: Signals, found: Sequence[Divergence], *, group: int = 0
) -> Figure:
    """A panel a channel, the one that parts first on top: its component that is farthest outside of the band.

    The band is the family's median and two of its standard deviations; the onset's interval shaded, the alarm dashed.
    """
    import matplotlib.pyplot as plt

    shown = list(found)[:_MOST]
    figure, axes = plt.subplots(len(shown), 1, figsize=(8, 1.6 * len(shown) + 0.6), sharex=True, squeeze=False)
    t, values = detector.reference.t, detector.with_timing(real)
    last = int(np.searchsorted(t, real.until[group] + 1e-9))
    for ax, divergence in zip(axes[:, 0], shown):
        band = detector.bands[divergence.channel]
        x = values[divergence.channel][group]
        k = int((np.abs(x.mean(axis=0) - band.centre)[:last] / band.spread[:last]).max(axis=0).argmax())
        middle, spread = band.centre[:, k], band.spread[:, k]
        ax.fill_between(t, middle - 2 * spread, middle + 2 * spread, color="#c9d3dc", lw=0, label="simulated")
        ax.plot(t, middle, color="#6b7a88", lw=0.8)
        ax.plot(t[:last], x[:, :last, k].T, color="#1f6f8b", lw=0.5, alpha=0.35)
        ax.plot(t[:last], x[:, :last, k].mean(axis=0), color="#1f6f8b", lw=1.2, label="real")
        if divergence.onset is not None and divergence.t is not None:
            ax.axvspan(divergence.onset.low, divergence.onset.high, color="#c77c11", alpha=0.25, lw=0, label="onset")
            ax.axvline(divergence.t, color="#c77c11", ls="--", lw=1.0, label="certain")
        unit = real.units.get(divergence.channel, "s")
        ax.set_ylabel(f"{divergence.channel}[{k}]\n[{unit}]", fontsize=8)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    handles = {label: h for ax in axes[:, 0] for h, label in zip(*ax.get_legend_handles_labels())}
    axes[0, 0].legend(handles.values(), handles.keys(), fontsize=8, frameon=False, ncols=4, loc="upper left")
    axes[-1, 0].set_xlabel("time [s]", fontsize=8)
    return figure

"""Sensor models fitted back from what they read: error of estimates, how often intervals cover, what stays hidden.

    python benchmarks/sensors.py [CHANNELS]

One JSON line a parameter: truth, fits, how many identify it, median of estimate over truth, root mean square
of the relative error, coverage of the 95 % interval. The last two are of those that identify it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

import numpy as np

from dexprior.families.sensors import (
    Encoder,
    EncoderConfig,
    Imu,
    ImuConfig,
    InertialConfig,
    Transport,
    TransportConfig,
)
from dexprior.transfer.noise import Fitted, NoiseFitConfig, fit_joint, fit_stamps, fit_still

_SETTINGS = NoiseFitConfig()
_SAMPLES, _DT = 60000, 0.01  # ten minutes at 100 Hz


def show(case: str, fits: list[tuple[Fitted, ...]], truth: dict[str, float], seconds: float) -> None:
    """A line for every parameter that has a truth."""
    for name, value in truth.items():
        all_of_it = [p for row in fits for p in row if p.name == name]
        known = [p for p in all_of_it if p.identifiable]
        line = {"case": case, "name": name, "truth": value, "fits": len(all_of_it), "identified": len(known)}
        if known and value:
            ratio = np.array([p.value for p in known], dtype=float) / value
            covered = np.mean([p.low <= value <= p.high for p in known])
            line |= {"median_ratio": round(float(np.median(ratio)), 3), "covered": round(float(covered), 3)}
            line |= {"rms_error": round(float(np.sqrt(np.mean((ratio - 1) ** 2))), 3)}
        print(json.dumps(line | {"seconds_a_fit": round(seconds / len(fits), 3)}), flush=True)


def still(case: str, channels: int, *, drift: float = 0.0, drift_time: float = 80.0, **terms: float) -> None:
    """A sensor at rest."""
    gyroscope = InertialConfig(longest=4 * _SAMPLES * _DT, **terms)
    fits: list[tuple[Fitted, ...]] = []
    seconds = 0.0
    for first in range(0, channels, 3):
        sensor = Imu(ImuConfig(gyroscope=gyroscope, accelerometer=InertialConfig()), 1, _DT, np.array([first]))
        read = sensor.run(np.zeros((1, _SAMPLES, 6)))[0, :, :3]
        read = read + drift * -np.expm1(-(np.arange(_SAMPLES) + 1) * _DT / drift_time)[:, None]
        began = time.process_time()
        fits += [fit_still(column, _DT, "u", _SETTINGS) for column in read.T[: channels - first]]
        seconds += time.process_time() - began
    truth = {name: terms.get(name, 0.0) for name in ("white", "instability", "walk")}
    show(case, fits, truth | {"drift": drift, "drift_time": drift_time if drift else 0.0}, seconds)


def links(case: str, seeds: Iterable[int], config: TransportConfig, samples: int) -> None:
    """Time stamps of packets, 50 Hz."""
    fits, began = [], time.process_time()
    for seed in seeds:
        arrival, _ = Transport(config, 1, 0.02, np.array([seed])).arrivals(np.arange(samples)[None] * 0.02)
        fits.append(fit_stamps(arrival[np.isfinite(arrival)], _SETTINGS))
    seconds = time.process_time() - began
    show(case, fits, {"rate": 50.0, "jitter": config.jitter, "start": config.start, "stop": config.stop}, seconds)


def encoders(case: str, seeds: Iterable[int], noise: float) -> None:
    """A joint that rests for 10 s at each of 12 places, 50 Hz."""
    t = np.arange(6000) * 0.02
    command, fits = 0.5 * np.floor(t / 10.0), []
    config, began = EncoderConfig(noise=noise), time.process_time()
    for seed in seeds:
        read = Encoder(config, 1, 1, 0.02, np.array([seed])).run(command[None, :, None])[0, :, 0]
        fits.append(fit_joint(t, command, t, read, _SETTINGS))
    show(case, fits, {"step": config.step, "noise": noise}, time.process_time() - began)


def main() -> None:
    channels = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    still("white", channels, white=1e-3)
    still("white, walk", channels, white=1e-3, walk=3e-4)
    still("white, instability", channels, white=1e-3, instability=1e-3)
    still("all three", channels, white=1e-3, instability=1e-3, walk=3e-4)
    still("drift", channels, white=1e-3, walk=1e-5, drift=0.004)
    still("drift in a walk", channels, white=1e-3, walk=1e-4, drift=0.01)
    links("link, 80 s", range(200), TransportConfig(latency=0.05, jitter=1e-3, start=0.02, stop=0.4), 4000)
    links("link, 400 s", range(50), TransportConfig(latency=0.05, jitter=2e-3, start=0.005, stop=0.25), 20000)
    encoders("encoder, 3 mrad", range(100), 3e-3)
    encoders("encoder, 1.2 mrad", range(100), 1.2e-3)
    encoders("encoder, 0.3 mrad", range(100), 3e-4)


if __name__ == "__main__":
    main()

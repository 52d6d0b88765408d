"""Reading clips: cached and uncached against decord, decord2 and PyAV, and the memory of the loader over many clips.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}. Reads are CPU milliseconds of one process, the median of
interleaved rounds at the same random places. decord2 replaces decord's import name, so it is run in a process of its
own from a folder made by `pip install --no-deps --target FOLDER decord2`, with decord beside it as the common measure.

    python benchmarks/data.py [clip.mp4] [decord2_folder]
    python benchmarks/data.py memory [clips] [workers]
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_FRAMES = 16
_SIZES = (None, (64, 64), (256, 256))
_ROUNDS, _READS = 9, 12


def main(clip: str = "", decord2: str = "") -> None:
    """Measure reads and print."""
    with tempfile.TemporaryDirectory() as scratch:
        path = clip or str(_example(Path(scratch)))
        for size in _SIZES:
            rows = _reads(path, size, Path(scratch))
            if decord2:
                rows |= _decord2(path, size, decord2, rows)
            peers = {name: rows[name] for name in ("decord", "decord2", "PyAV") if name in rows}
            best = min(peers, key=lambda name: peers[name])
            place = (
                f"{_FRAMES} frames of {Path(path).name} at {'its own size' if size is None else f'{size[0]}x{size[1]}'}"
            )
            for peer, value in peers.items():
                _print(f"uncached random read, {place}", rows["uncached"], "CPU ms", peer, value)
            _print(f"uncached random read, {place}, best peer", rows["uncached"], "CPU ms", best, peers[best])
            _print(f"cached read, {place}", rows["cached"], "CPU ms", "decord", rows["decord"])


def memory(clips: int = 2000, workers: int = 2) -> None:
    """Load `clips` clips once and print the memory of this process and its workers at each tenth of the way."""
    from dexprior.data.loader import BucketConfig, ClipLoader, ClipTable, EpisodeClips, LoaderConfig
    from dexprior.data.shards import ShardSet

    with tempfile.TemporaryDirectory() as scratch:
        _many(Path(scratch), clips)
        before = _resident()
        episodes = ShardSet(scratch)
        table = ClipTable.from_episodes(episodes, BucketConfig(sizes=((32, 32),), lengths=(_FRAMES,)))
        loader = ClipLoader(EpisodeClips(episodes, table), LoaderConfig(batch=20), seed=0, workers=workers)
        _print(f"memory of an index of {clips} clips", _resident() - before, "MiB", "none", 0.0)
        marks, step = [], max(len(loader) // 10, 1)
        for k, _ in enumerate(loader, start=1):
            if k % step == 0:
                marks.append(_resident())
                name = f"memory after {20 * k} of {clips} clips, {workers} workers"
                _print(name, marks[-1], "MiB", "after the first tenth", marks[0])


def _reads(path: str, size: tuple[int, int] | None, scratch: Path) -> dict[str, float]:
    from dexprior.data.cache import FrameCache
    from dexprior.data.readers import ClipReader

    cache = FrameCache(scratch / "cache", size=size)

    def uncached(start: int) -> np.ndarray:
        with ClipReader(path, size=size) as reader:
            return reader.read(range(start, start + _FRAMES))

    def cached(start: int) -> np.ndarray:
        return cache.read(path, range(start, start + _FRAMES))

    with ClipReader(path) as reader:
        last = len(reader) - _FRAMES
    for start in (0, last, last // 2):
        np.testing.assert_array_equal(cached(start), uncached(start))
    time.sleep(2.1)  # a file that has just been written is hashed on every read
    return _cpu(
        {"decord": _decord(path, size), "PyAV": _pyav(path, size), "uncached": uncached, "cached": cached}, last
    )


def _decord(path: str, size: tuple[int, int] | None) -> Callable[[int], object]:
    import decord

    shape = {} if size is None else {"height": size[0], "width": size[1]}

    def read(start: int) -> object:
        video = decord.VideoReader(path, num_threads=1, **shape)
        return video.get_batch(list(range(start, start + _FRAMES))).asnumpy()

    return read


def _pyav(path: str, size: tuple[int, int] | None) -> Callable[[int], object]:
    """As its documentation seeks: to the key frame before, then decode on; one thread, which costs least."""
    import av

    shape = {} if size is None else {"height": size[0], "width": size[1]}

    def read(start: int) -> object:
        with av.open(path) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            assert stream.average_rate
            assert stream.time_base
            first = round(start / stream.average_rate / stream.time_base)
            container.seek(first, stream=stream)
            frames: list[np.ndarray] = []
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= first:
                    frames.append(frame.reformat(format="rgb24", interpolation="BILINEAR", **shape).to_ndarray())
                if len(frames) == _FRAMES:
                    break
            return np.stack(frames)

    return read


def _decord2(path: str, size: tuple[int, int] | None, folder: str, rows: dict[str, float]) -> dict[str, float]:
    """decord2 in its own process, scaled by what PyAV took there and here."""
    command = [sys.executable, __file__, "peer", path, json.dumps(size)]
    environment = {**os.environ, "PYTHONPATH": folder}
    found = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)
    return {"decord2": found["decord"] * rows["PyAV"] / found["PyAV"]}


def peer(path: str, size: str) -> None:
    """What `_decord2` runs."""
    from dexprior.data.readers import ClipReader

    shape = None if size == "null" else tuple(json.loads(size))
    with ClipReader(path) as reader:
        last = len(reader) - _FRAMES
    print(json.dumps(_cpu({"decord": _decord(path, shape), "PyAV": _pyav(path, shape)}, last)))


def _cpu(reads: dict[str, Callable[[int], object]], last: int) -> dict[str, float]:
    """Median over rounds of the CPU time of one read [ms]; the rounds of all readers are interleaved."""
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in reads}
    for _ in range(_ROUNDS):
        starts = rng.integers(last + 1, size=_READS)
        for name, read in reads.items():
            read(int(starts[0]))
            begin = time.process_time()
            for start in starts:
                read(int(start))
            times[name].append(1e3 * (time.process_time() - begin) / _READS)
    return {name: float(np.median(values)) for name, values in times.items()}


def _example(folder: Path) -> Path:
    """A clip of 192 frames at 256x256 with motion everywhere."""
    from dexprior.data.clips import write_clip

    rng = np.random.default_rng(0)
    y, x = np.mgrid[:256, :256] / 256
    waves = [(rng.uniform(2, 20, 2), rng.uniform(0, 6.28), rng.uniform(-0.4, 0.4)) for _ in range(12)]
    frames = np.empty((192, 256, 256, 3), dtype=np.uint8)
    for k, frame in enumerate(frames):
        for channel in range(3):
            part = waves[4 * channel : 4 * channel + 4]
            value = sum(np.sin(6.28 * (f[0] * x + f[1] * y) + phase + speed * k) for f, phase, speed in part)
            frame[..., channel] = 127 + 30 * value
    return write_clip(folder / "example.mp4", frames, 30.0)


def _many(folder: Path, clips: int) -> None:
    """Shards whose clips differ in name and place, not in content: it is the loader that is measured."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import dexprior.data.shards as shards
    from dexprior.types import Episode
    from tests.conftest import make_examples

    made = make_examples(n=_FRAMES + 4, size=32)[Episode]
    ramp = np.broadcast_to(np.linspace(0, 250, 32, dtype=np.uint8)[:, None], (32, 32, 3))
    frames = np.stack([np.roll(ramp, k, axis=0) for k in range(_FRAMES + 4)])
    episode = dataclasses.replace(made, sample=dataclasses.replace(made.sample, frames=frames))
    parts = shards.pack_episode(episode, producer="benchmark", seed=0)
    shards.pack_episode = lambda *_, **__: parts  # type: ignore[assignment]  # encode once
    with shards.ShardWriter(folder, producer="benchmark") as writer:
        for k in range(clips):
            writer.write(f"clip-{k:06d}", episode, seed=k)


def _resident() -> float:
    """Anonymous memory of this process and its children [MiB]; pages that they share count once, libraries do not."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    total = 0
    for process in (str(os.getpid()), *children):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                total += int(line.split()[1])
    return total / 1024


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": round(value, 3), "unit": unit, "peer": peer, "peer_value": round(peer_value, 3)}
    print(json.dumps(row | {"ratio": round(value / peer_value, 3) if peer_value else None}), flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["memory"]:
        memory(*map(int, words[1:3]))
    elif words[:1] == ["peer"]:
        peer(words[1], words[2])
    else:
        main(*words[:2])

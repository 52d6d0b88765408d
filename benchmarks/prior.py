"""CPU time of a sample of the video prior and of a step of its training, against their multiplications alone.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}. The peer is the time that as many multiplications and
additions take in one large product of matrices, in the same run: a ratio of one could not be beaten on this machine.

    python benchmarks/prior.py DEMONSTRATIONS [threads]

DEMONSTRATIONS is a folder of `dexprior data generate`, for instance `task=pick_place n=16 suite.size=48
suite.cameras=[front] suite.depth=[]`. Weights are those that training starts from, which cost what others cost.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from dexprior.data.stacks import load_stack
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import HandObjectPipeline
from dexprior.prior.training import PriorConfig, PriorData, batch_losses, draw_batch

TOGETHER = 16  # as the line samples


def main(folder: str, threads: int = 1) -> None:
    """Measure and print."""
    torch.set_num_threads(threads)
    config, device = PriorConfig(), torch.device("cpu")
    stack = load_stack(folder, config.size)
    data = PriorData(stack, config.patch)
    net = JointDenoiser(frames=data.motion.shape[1], size=config.size, fps=stack.fps)
    optimizer = torch.optim.AdamW(net.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        sum(batch_losses(net, draw_batch(data, config, 0, number, 0, device)).values()).backward()
        optimizer.step()

    net.train()
    for name, number in (("with video", 0), ("motion alone", 1)):
        _print(f"a training step {name}, {threads} threads", "CPU-s a step", lambda k=number: step(k), rounds=7)
    pipeline = HandObjectPipeline.fresh(net.eval())
    pipeline.set_progress_bar_config(disable=True)
    conditions = [stack.conditions[k % len(stack)] for k in range(TOGETHER)]
    _print(f"a sample of {config.size} px, {threads} threads", "CPU-s a sample", lambda: pipeline(conditions), TOGETHER)


def _print(name: str, unit: str, work: Callable[[], object], each: int = 1, rounds: int = 3) -> None:
    with FlopCounterMode(display=False) as counted:
        work()
    taken, bare = np.median([(_seconds(work), _product(counted.get_total_flops())) for _ in range(rounds)], axis=0)
    row = {"name": name, "value": taken / each, "unit": unit, "peer": "its multiplications", "peer_value": bare / each}
    print(json.dumps(row | {"ratio": taken / bare}), flush=True)


def _product(flops: float, size: int = 1024, times: int = 8) -> float:
    """CPU-seconds of so many in a product of matrices."""
    a = torch.ones(size, size)
    return _seconds(lambda: [a @ a for _ in range(times)]) * flops / (2 * times * size**3)


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))

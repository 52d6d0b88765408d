"""Ranks that train together: how accelerate is told of them, who holds which weights, what is said when one is lost.

A step's batch is made of parts, each a function of (seed, step, part): accelerate's rank r takes the parts
r * accumulate ... (r + 1) * accumulate - 1 one after the other. The loss of a step is the mean over the parts, so two
ranks, or two accumulated parts, are one and the same training up to the order of sums.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dexprior.artifacts import whole
from dexprior.children import ranks
from dexprior.errors import BadInput, ConnectionLost

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["assembled", "explained", "laid_out", "make_accelerator", "restore_optimizer", "sharded"]


def make_accelerator(precision: str | None, *, unused: bool) -> Accelerator:
    """What accelerate knows of this process and of the ranks beside it.

    Ranks without a GPU speak gloo. accelerate shards weights on GPUs alone; on CPUs it is told to here, so that two of
    them run the code that GPUs run.

    Args:
        precision: no or bf16; None for what `accelerate launch` was told.
        unused: some steps leave parameters without gradients, which DDP must be told.

    Raises:
        BadInput: `accelerate launch` was told another precision.
    """
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs, DistributedType, FullyShardedDataParallelPlugin

    told = precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if told not in ("no", "bf16"):
        raise BadInput(f"accelerate launch was told mixed_precision = {told}: the prior is trained in no or bf16")
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=unused)]
    alone = ranks() > 1 and not torch.cuda.is_available()  # without it, each of them would train on its own
    accelerator = Accelerator(cpu=alone, mixed_precision=told, kwargs_handlers=handlers)
    fully = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if fully and accelerator.distributed_type == DistributedType.MULTI_CPU:
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
        accelerator.state.distributed_type = DistributedType.FSDP
    return accelerator


def sharded(model: torch.nn.Module) -> bool:
    """Whether ranks share out its weights."""
    return any(hasattr(weight, "device_mesh") for weight in model.parameters())


def laid_out(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as another one of its shape lies: on its device, or shared out among ranks."""
    if hasattr(like, "device_mesh"):
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(like, DTensor)
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    return tensor.to(like.device)


def restore_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[int, Mapping[str, Any]]) -> None:
    """Give an optimizer whose parameters are now shared out the state that it had before, by number of parameter."""
    optimizer.state.clear()
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, entries in sorted(state.items()):  # sharing out is done together: all ranks in one order
        weight = weights[number]
        optimizer.state[weight] = {
            name: laid_out(value, weight) if getattr(value, "shape", None) == weight.shape else value
            for name, value in sorted(entries.items())
        }


def assembled(model: torch.nn.Module, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All weights of a network in one place, some of them replaced; of several ranks all call."""
    return {name: whole(value).clone() for name, value in {**model.state_dict(), **others}.items()}


@contextlib.contextmanager
def explained(knobs: str) -> Iterator[None]:
    """Say in one line what happened where memory ran out, or where another rank is gone.

    Args:
        knobs: what takes memory, and what to do about it.

    Raises:
        BadInput: out of memory.
        ConnectionLost: another rank ended.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        said = " ".join(str(error).split())[:120]
        raise BadInput(f"out of memory: {knobs} ({said})") from None
    except RuntimeError as error:
        if ranks() == 1 or not _of_a_peer(error):
            raise
        raise ConnectionLost(
            f"another of the {ranks()} ranks has ended, and this one ends with it: see what that one said; the same "
            "command goes on from the last checkpoint"
        ) from None


def _of_a_peer(error: RuntimeError) -> bool:
    """Whether a collective failed: gloo raises plain RuntimeErrors."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error).lower()

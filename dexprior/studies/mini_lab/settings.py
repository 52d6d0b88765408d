"""Choices of the mini-lab, made before a round is played."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.transfer.conditioning import ConditioningConfig, SamplerConfig
from dexprior.transfer.divergence import DivergenceConfig, groups_needed
from dexprior.transfer.recovery import RecoveryConfig
from dexprior.transfer.replay import CHANNELS
from dexprior.transfer.updating import UpdateConfig

__all__ = ["LabConfig", "TrainingConfig"]

_LOGGED = len(CHANNELS) - 1  # the hand is on a stand, which has no joints


@config
class TrainingConfig:
    """Search for a gait."""

    population: Annotated[int, Ge(4)] = 8
    """Gaits a generation."""
    generations: Annotated[int, Ge(1)] = 12
    """Generations of CMA-ES."""
    instances: Annotated[int, Ge(1)] = 3
    """Instances of the task, each at every friction."""
    spread: Annotated[float, Gt(0), Le(1)] = 0.2
    """First standard deviation, in shares of the gait's ranges."""
    start: Annotated[float, Ge(0), Le(1)] = 0.3
    """Share of every range at which the untrained gait lies."""


@config
class LabConfig:
    """The two worlds, what is trained, and how much is measured."""

    frictions: tuple[float, ...] = (0.75, 0.95, 1.15)
    """Frictions of the fingertips on the cube, in the simulator."""
    held_out: Annotated[float, Gt(0)] = 0.15
    """Friction of the other world."""
    seconds: Annotated[float, Gt(0), Le(6)] = 2.5
    """Time in which the cube must stand at its mark."""
    panel: Annotated[int, Ge(8)] = 48
    """Instances on which worlds and rounds are compared."""
    repeats: Annotated[int, Ge(2)] = 3
    """Repeats of a replay in the other world."""
    groups: Annotated[int, Ge(20)] = 140
    """Groups of simulated repeats, for the divergence."""
    null: Annotated[int, Ge(30)] = 40
    """Groups of the simulator for the diagnosis."""
    signatures: Annotated[int, Ge(4)] = 8
    """Signatures of each cause."""
    window: Annotated[float, Gt(0.2)] = 0.8
    """Length of a replay to which parameters are fitted [s]; later, contacts have diverged."""
    training: TrainingConfig = TrainingConfig()
    """Training of the gait."""
    divergence: DivergenceConfig = DivergenceConfig()
    """When worlds count as parted."""
    update: UpdateConfig = UpdateConfig(
        conditioning=ConditioningConfig(
            sampler=SamplerConfig(particles=32, moves=8), population=8, evaluations=48,
        )
    )  # fmt: skip
    """How the family follows the traces."""
    recovery: RecoveryConfig = RecoveryConfig()
    """When a recovering policy backs off."""

    def __post_init__(self) -> None:
        if len(self.frictions) < 2 or min(self.frictions) <= 0:
            raise BadInput(f"LabConfig: frictions {self.frictions}; two or more positive ones are needed")
        if min(self.frictions) <= self.held_out <= max(self.frictions):
            raise BadInput(
                f"LabConfig: held_out {self.held_out} lies within the frictions {self.frictions} that are trained on"
            )
        needed = groups_needed(_LOGGED, self.divergence)
        if self.groups < needed:
            raise BadInput(f"LabConfig: {self.groups} groups; {needed} are needed for {_LOGGED} channels")

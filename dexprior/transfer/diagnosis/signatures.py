"""What each cause does to this task's signals, and how well it explains what a real robot did.

Deviations of a group's mean from the family's median are averaged over short windows, divided by the noise, and
whitened by the family's own leading factors, so that what a member of the family may do counts little. A signature is
the whitened difference between a world with a cause and the same world without it; a bank holds many a cause, over
magnitudes and members of the family. A real deviation is then written as a non-negative sum of a few signatures of one
cause (those most alike), and what is left over of its energy, beyond noise, says how badly the cause explains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, config
from dexprior.errors import BadInput, UnknownName
from dexprior.families import ParameterFamily
from dexprior.transfer.diagnosis.causes import Cause, cause_of, completed, inject_cause, injectable
from dexprior.transfer.divergence import Signals
from dexprior.transfer.replay import Probe

__all__ = ["BankConfig", "SignatureBank", "inject_strengths"]

_WINDOW = 0.04  # [s]
_FACTORS = 30  # of the family
_FITTED = 0.7  # share of the groups of the family that give the factors
_LEAST = 4.0  # excess energy below which nothing is explained
_NEIGHBOURS = 10  # signatures that are added up
_FARTHEST = 3.0  # times the longest of them: beyond, a magnitude is not plausible
_BATCH = 8  # magnitudes of an injector


@config
class BankConfig:
    """How much is simulated."""

    null: Annotated[int, Ge(30)] = 150
    """Groups of the family."""
    each: Annotated[int, Ge(4)] = 40
    """Signatures of every cause."""


@dataclass(frozen=True)
class SignatureBank:
    """Signatures of one probe."""

    probe: Probe
    repeats: int
    centre: dict[str, Float[np.ndarray, "time n"]]
    noise: dict[str, Float[np.ndarray, " n"]]
    """Standard deviation of a group's mean, of a single sample."""
    factors: Float[np.ndarray, "factor feature"]
    """Leading directions of the family's own deviations, orthonormal."""
    shrink: Float[np.ndarray, " factor"]
    """Factor that each is multiplied by."""
    threshold: float
    """Excess energy that groups of the family reach, which were not used for the factors; more is something."""
    signatures: dict[str, Float[np.ndarray, "signature feature"]]
    """Signatures of each cause, whitened."""

    @classmethod
    def make(
        cls,
        probe: Probe,
        causes: Iterable[str],
        *,
        repeats: int,
        null: int = 150,
        each: int = 40,
        within: tuple[float, float] = (0.0, 1.0),
        channels: Iterable[str] | None = None,
        family: ParameterFamily | None = None,
        seed: int = 0,
    ) -> SignatureBank:
        """Simulate a bank.

        Args:
            probe: what is replayed.
            causes: names; those that the task has nothing for are left out.
            repeats: of the real robot.
            null: groups of the family.
            each: signatures a cause.
            within: part of each cause's range of magnitudes.
            channels: those that the robot logs; all by default.
            family: what the simulator assumes of the task; `identified` by default.
            seed: of everything.

        Raises:
            UnknownName: no such cause or channel, or a parameter that the task does not have.
            BadInput: fewer than 30 groups of the family, or a single repeat, of which the noise is not known.
        """
        if repeats < 2:
            raise BadInput(f"{repeats} repeat: a diagnosis needs two or more, to tell noise from a difference")
        if null < 30:
            raise BadInput(f"{null} groups of the family; at least 30 are needed to tell it from a cause")
        family = completed(probe.task, family)
        rng = np.random.default_rng([seed, 0])
        own = inject_cause(
            probe, None, family.sample(rng, null), np.ones(null), repeats=repeats, seed=_number(rng)
        )  # fmt: skip
        names = tuple(own.values if channels is None else channels)
        for name in names:
            if name not in own.values:
                raise UnknownName("channel of a replay", name, tuple(own.values))
        centre = {name: np.median(own.values[name].mean(axis=1), axis=0) for name in names}
        noise = {
            name: np.sqrt(np.maximum(own.values[name].var(axis=1, ddof=1).mean(axis=(0, 1)) / repeats, 1e-18))
            for name in names
        }
        bank = cls(probe, repeats, centre, noise, np.zeros((0, 1)), np.zeros(0), 0.0, {})
        deviation = bank.features(own)
        used = round(_FITTED * null)
        _, size, rows = np.linalg.svd(deviation[:used] / np.sqrt(used), full_matrices=False)
        few = min(_FACTORS, used // 4)
        size, rows = size[:few], rows[:few]
        shrink = 1.0 / np.sqrt(1.0 + np.maximum(size**2 - 1.0, 0.0))
        bank = cls(probe, repeats, centre, noise, rows, shrink, 0.0, {})
        threshold = max(_LEAST, float(bank.excess(bank.whiten(deviation[used:])).max()))
        values = family.sample(rng, each)
        plain = bank.features(
            inject_cause(probe, None, values, np.ones(each), repeats=1, seed=seed, noisy=False)
        )  # fmt: skip
        signatures = {}
        for name in causes:
            cause = cause_of(name)
            if injectable(cause, probe.task):
                magnitudes = cause.draw(np.random.default_rng([seed, 1]), each, within=within)
                changed = inject_strengths(probe, cause, values, magnitudes, repeats=1, seed=seed, noisy=False)
                signatures[name] = bank.whiten(bank.features(changed) - plain)
        return cls(probe, repeats, centre, noise, rows, shrink, threshold, signatures)

    def features(self, signals: Signals) -> Float[np.ndarray, "group feature"]:
        """Deviations of the groups' means in windows, over their noise."""
        length = max(round(_WINDOW / float(signals.t[1] - signals.t[0])), 1)
        parts = []
        for name, centre in self.centre.items():
            deviation = signals.values[name].mean(axis=1) - centre
            whole = deviation.shape[1] // length * length
            windows = deviation[:, :whole].reshape(len(deviation), -1, length, deviation.shape[2]).mean(axis=2)
            parts.append((windows / (self.noise[name] / np.sqrt(length))).reshape(len(deviation), -1))
        return np.concatenate(parts, axis=1)

    def whiten(self, features: Float[np.ndarray, "group feature"]) -> Float[np.ndarray, "group feature"]:
        """Shrink what the family does by itself."""
        along = features @ self.factors.T
        return features - (along * (1.0 - self.shrink)) @ self.factors

    def excess(self, white: Float[np.ndarray, "group feature"]) -> Float[np.ndarray, " group"]:
        """Energy beyond that of noise, in standard deviations of the latter."""
        size = white.shape[1]
        return ((white**2).sum(axis=1) - size) / np.sqrt(2.0 * size)

    def unexplained(
        self, signals: Signals, causes: Iterable[str] | None = None
    ) -> dict[str, Float[np.ndarray, " group"]]:
        """Share of each group's energy beyond noise that a cause leaves over: 0 is all explained, 1 nothing."""
        return self.leftover(self.whiten(self.features(signals)), causes)

    def leftover(
        self, white: Float[np.ndarray, "group feature"], causes: Iterable[str] | None = None
    ) -> dict[str, Float[np.ndarray, " group"]]:
        """The same of whitened features."""
        from scipy.optimize import nnls

        size = white.shape[1]
        energy = (white**2).sum(axis=1)
        beyond = np.maximum(energy - size, np.sqrt(2.0 * size))
        floor = np.sqrt(2.0 * size) / beyond
        found = {}
        for name in self.signatures if causes is None else causes:
            bank = self.signatures[name]
            length = np.linalg.norm(bank, axis=1)
            bank, length = bank[length > 0], length[length > 0]
            if not len(bank):
                found[name] = np.ones(len(white)) + floor
                continue
            unit = bank / length[:, None]
            alike = white @ unit.T
            left = np.empty(len(white))
            for g, row in enumerate(white):
                near = np.argsort(-alike[g])[:_NEIGHBOURS]
                said = nnls(unit[near].T, row)[0] @ unit[near]
                most = _FARTHEST * length[near].max()  # a cause of a plausible size only
                said *= min(1.0, most / max(np.linalg.norm(said), 1e-300))
                left[g] = ((row - said) ** 2).sum()
            found[name] = np.maximum((left - size) / beyond, 0.0) + floor
        return found


def inject_strengths(
    probe: Probe, cause: Cause, values: np.ndarray, magnitudes: np.ndarray, *, repeats: int, seed: int, noisy: bool
) -> Signals:
    """`inject_cause`, with several strengths of an injector, which all worlds of a task share."""
    if cause.kind != "injector":
        return inject_cause(probe, cause, values, magnitudes, repeats=repeats, seed=seed, noisy=noisy)
    order = np.argsort(magnitudes)
    parts, places = [], np.array_split(order, max(len(order) // _BATCH, 1))
    for k, place in enumerate(places):
        parts.append(
            inject_cause(
                probe, cause, values[place], magnitudes[place], repeats=repeats, seed=seed + k, noisy=noisy
            )
        )  # fmt: skip
    return Signals.joined(parts).take(np.argsort(np.concatenate(places)))


def _number(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))

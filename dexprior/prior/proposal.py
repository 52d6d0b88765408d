"""Where hands start and what they reach, from a cloud and a sentence: p(start, target, times | object, goal, sentence).

A mixture of Gaussians (Bishop 1994) over what the training conditions have in common: the principal directions of
wrists, fingers, contacts and times, in units of what a grasp forgives. At the start wrists are told from the object, at
the target from what it is brought to, so that a place that was not seen is not strange.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_network, save_module
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_rot6d, quat_from_matrix
from dexprior.geometry.torch_rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.hands.skeleton import forward
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.text import TextEncoder, text_encoder
from dexprior.types import ContactConfiguration, PriorCondition, Side

__all__ = ["Proposal", "fit_proposal"]

SCHEMA = "dexprior.proposal/1"
_FILE = "proposal.safetensors"
_COMPONENTS, _WIDTH, _SPOKEN = 4, 64, 24
_MOST = 16  # principal directions
_STEPS, _LOOK, _BATCH, _RATE, _DECAY = 1500, 50, 128, 1e-3, 0.03
_HELD = 10  # every so many conditions one is held out; where those are likeliest, the fit stops
_LEAST = 0.05  # spread, in what a grasp forgives, below which nothing is told apart
_HAND = 3 + 6 + 45 + 5  # numbers of a hand: wrist position and rotation, fingers, which fingers touch
_FORGIVEN = np.concatenate([np.full(3, 0.003), np.full(6, 0.05), np.full(45, 0.05), np.full(5, 0.25)])
_SECONDS = 0.05  # [s]


@config
class _Built:
    """What a proposal is built from."""

    sides: tuple[Side, ...]
    """Hands that the conditions may show."""
    text: str
    text_size: Annotated[int, Ge(1)]
    tracks: Annotated[int, Ge(1)]
    """Points of matter that an object is followed by."""
    directions: Annotated[int, Ge(1)]
    fps: float
    seconds: float
    """Length of the longest clip [s]."""


class Proposal(nn.Module):
    """A density over what a condition asks of the hands, by what it says of the object."""

    usual: Tensor
    spoken: Tensor
    shift: Tensor
    unit: Tensor
    middle: Tensor
    axes: Tensor
    straight: Tensor

    def __init__(self, built: _Built) -> None:
        super().__init__()
        self.built = built
        features = 3 * built.tracks + 3 + 3 + 6 + 6 + 1 + len(built.sides) + _SPOKEN
        answers = 2 * len(built.sides) * _HAND + 2
        self.network = nn.Sequential(
            nn.Linear(features, _WIDTH), nn.SiLU(), nn.Linear(_WIDTH, _WIDTH), nn.SiLU(),
            nn.Linear(_WIDTH, _COMPONENTS * (1 + 2 * built.directions)),
        )  # fmt: skip
        for name, shape in (
            ("usual", (built.text_size,)), ("spoken", (built.text_size, _SPOKEN)), ("shift", (features,)),
            ("unit", (features,)), ("middle", (answers,)), ("axes", (built.directions, answers)),
            ("straight", (features, built.directions)),
        ):  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))

    def features(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch feature"]:
        """What is known of stacked conditions before anybody touches anything, standardised."""
        points, brought = condition["points"], condition["brought"][:, None]
        centre = points.mean(1)
        way = self._anchor(condition) - centre
        turned = [rot6d_from_matrix(matrix_from_quat(condition[name][:, 3:])) for name in ("pose", "goal")]
        raw = torch.cat(
            [
                (points - centre[:, None]).flatten(1), centre, torch.where(brought, way, 0.0),
                *(torch.where(brought, one, 0.0) for one in turned), brought.to(points), condition["shows"].to(points),
                (condition["text"] - self.usual) @ self.spoken,
            ],
            dim=1,
        )  # fmt: skip
        return (raw - self.shift) / self.unit

    def answers(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch answer"]:
        """What stacked conditions ask of the hands, in units of what a grasp forgives; zero for a hand that is not
        there."""
        parts = []
        for name, origin in (("start", condition["points"].mean(1)), ("target", self._anchor(condition))):
            hands = condition[name][..., :_HAND].clone()
            hands[..., :3] -= origin[:, None]
            parts.append(((hands / torch.from_numpy(_FORGIVEN).to(hands)) * condition["shows"][..., None]).flatten(1))
        times = torch.stack([condition["target_at"], condition["seconds"]], dim=1) / _SECONDS
        return torch.cat([*parts, times], dim=1)

    def log_prob(
        self, features: Float[Tensor, "batch feature"], directions: Float[Tensor, "batch direction"]
    ) -> Float[Tensor, " batch"]:
        """Log density of what the conditions ask for, along the principal directions."""
        weight, mean, spread = self._mixture(features)
        z = (directions[:, None] - mean) / spread
        each = -0.5 * (z.square() + np.log(2 * np.pi)).sum(-1) - spread.log().sum(-1)
        return (weight + each).logsumexp(-1)

    @torch.no_grad()
    def propose(
        self, conditions: Sequence[PriorCondition], *, seed: int, text: TextEncoder | None = None
    ) -> list[PriorCondition]:
        """The same conditions with other starts, targets, contacts, times and lengths of the clip: what is said of the
        object, the camera, the sentence and which hands there are stays.

        Args:
            conditions: whose hands do not matter.
            seed: condition k's proposal depends on (seed, k) only.
            text: what reads the sentences, where it is at hand.

        Raises:
            BadInput: objects that are followed by another number of points, or a hand that no training condition shows.
        """
        b, read = self.built, text or text_encoder(self.built.text)
        if other := sorted({len(c.points) for c in conditions} - {b.tracks}):
            raise BadInput(f"objects followed by {other[0]} points; this proposal was fitted to {b.tracks}")
        stacked = condition_tensors(list(conditions), sides=b.sides, text=read)
        weight, mean, spread = self._mixture(self.features(stacked))
        found = []
        for k in range(len(conditions)):
            rng = np.random.default_rng([seed, k])
            pick = int(rng.choice(_COMPONENTS, p=weight[k].double().softmax(-1).numpy()))
            noise = torch.from_numpy(rng.standard_normal(b.directions)).to(mean)
            found.append(mean[k, pick] + spread[k, pick] * noise)
        answers = (self.middle + torch.stack(found) @ self.axes).double().numpy()
        origins = [stacked["points"].mean(1).double().numpy(), self._anchor(stacked).double().numpy()]
        return [
            self._told(condition, answers[k], [origin[k] for origin in origins])
            for k, condition in enumerate(conditions)
        ]

    def save(self, folder: Path) -> Path:
        """Write it into a checkpoint's folder."""
        return save_module(self, folder / _FILE, schema=SCHEMA, producer="proposal", config=self.built)

    @classmethod
    def load(cls, folder: Path) -> Proposal | None:
        """What `save` wrote; None in checkpoints that are older than it.

        Raises:
            ArtifactError: the file is damaged.
        """
        if not (folder / _FILE).is_file():
            return None
        return load_network(folder / _FILE, schema=SCHEMA, config=_Built, network=cls, command="dexprior train-prior")

    def _anchor(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch 3"]:
        """What the target is told from [m]: what the object is brought to, or else the object."""
        return torch.where(condition["brought"][:, None], condition["goal"][:, :3], condition["points"].mean(1))

    def _mixture(
        self, features: Float[Tensor, "batch feature"]
    ) -> tuple[
        Float[Tensor, "batch component"],
        Float[Tensor, "batch component direction"],
        Float[Tensor, "batch component direction"],
    ]:
        """Log weights, means, standard deviations."""
        out = self.network(features).unflatten(1, (_COMPONENTS, -1))
        mean, spread = out[..., 1:].chunk(2, dim=-1)
        return out[..., 0].log_softmax(-1), mean + (features @ self.straight)[:, None], spread.exp().clamp(min=_LEAST)

    def _told(
        self, condition: PriorCondition, answer: Float[np.ndarray, " answer"], origins: Sequence[np.ndarray]
    ) -> PriorCondition:
        b = self.built
        hands = answer[:-2].reshape(2, len(b.sides), _HAND) * _FORGIVEN
        told: dict[str, tuple[ContactConfiguration, ...]] = {}
        for name, rows, origin in zip(("start", "target"), hands, origins):
            made = []
            for old in getattr(condition, name):
                row = rows[b.sides.index(old.side)]
                wrist = np.concatenate([origin + row[:3], quat_from_matrix(matrix_from_rot6d(row[3:9]))])
                fingers, touching = row[9:54], row[54:] > 0.5
                tips = forward(wrist, fingers, old.betas, old.side)[4::4]
                points = np.where(touching[:, None], tips, 0.0)
                made.append(replace(old, wrist_pose=wrist, finger_pose=fingers, touching=touching, points=points))
            told[name] = tuple(made)
        seconds = float(np.clip(round(answer[-1] * _SECONDS * b.fps), 1, round(b.seconds * b.fps)) / b.fps)
        return replace(
            condition, start=told["start"], target=told["target"], seconds=seconds,
            target_at=float(np.clip(answer[-2] * _SECONDS, 0.0, seconds)),
        )  # fmt: skip


def fit_proposal(
    conditions: Sequence[PriorCondition],
    *,
    fps: float,
    sides: Sequence[Side],
    seed: int,
    text: TextEncoder,
) -> Proposal:
    """Fit a proposal to the conditions of a prior's training clips by maximum likelihood; a function of the seed.

    Args:
        conditions: with objects that are followed by the same number of points.
        fps: frames per second of the clips.
        sides: of the hands that the prior knows.
        seed: of weights and batches.
        text: what reads the sentences.

    Raises:
        BadInput: fewer than two conditions.
    """
    if len(conditions) < 2:
        raise BadInput(f"{len(conditions)} condition: a proposal is fitted to at least two")
    stacked = condition_tensors(list(conditions), sides=sides, text=text)
    generator = torch.Generator().manual_seed(seed)

    def build(directions: int) -> Proposal:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Proposal(
                _Built(
                    sides=tuple(sides), text=text.name, text_size=text.size, tracks=stacked["points"].shape[1],
                    directions=directions, fps=fps, seconds=float(stacked["seconds"].max()),
                )
            )  # fmt: skip

    answers = build(1).answers(stacked)
    middle = answers.mean(0)
    _, singular, axes = torch.linalg.svd(answers - middle, full_matrices=False)
    kept = max(min(int((singular > _LEAST * len(answers) ** 0.5).sum()), _MOST), 1)
    net = build(kept)
    net.middle.copy_(middle)
    net.axes.copy_(axes[:kept])
    directions = (answers - middle) @ net.axes.T
    sentences = stacked["text"].unique(dim=0)
    net.usual.copy_(sentences.mean(0))
    spoken = torch.linalg.svd(sentences - net.usual, full_matrices=False)[2][:_SPOKEN]
    net.spoken[:, : len(spoken)].copy_(spoken.T)
    net.unit.fill_(1.0)
    raw = net.features(stacked)
    net.shift.copy_(raw.mean(0))
    net.unit.copy_(torch.where(raw.std(0) > 1e-5, raw.std(0), 1.0))
    features = net.features(stacked)
    net.straight.copy_(_line(features, directions))
    with torch.no_grad():
        apart = (directions - features @ net.straight).std(0).clamp(min=_LEAST)
        last = cast(nn.Linear, net.network[-1])
        last.weight.mul_(0.1)
        last.bias.view(_COMPONENTS, -1)[:, 1 + kept :].copy_(apart.log().expand(_COMPONENTS, -1))
    held = torch.arange(len(features)) % _HELD == _HELD - 1
    _climb(net, features, directions, held if held.any() else ~held, generator)
    return net.eval()


def _line(
    features: Float[Tensor, "batch feature"], directions: Float[Tensor, "batch direction"]
) -> Float[Tensor, "feature direction"]:
    """The straight line through what is asked for, by what is known (ridge regression)."""
    gram = features.T @ features
    return torch.linalg.solve(gram + torch.eye(len(gram)) * (0.01 * len(features)), features.T @ directions)


def _climb(net: Proposal, features: Tensor, directions: Tensor, held: Tensor, generator: torch.Generator) -> None:
    """Gradient steps on the likelihood of what is not held out; ends with the weights by which that is likeliest."""
    known = torch.nonzero(~held)[:, 0] if not held.all() else torch.arange(len(held))
    optimizer = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=_DECAY)
    best, kept = -np.inf, copy.deepcopy(net.state_dict())
    for step in range(_STEPS):
        if step % _LOOK == 0:
            with torch.no_grad():
                likely = float(net.log_prob(features[held], directions[held]).mean())
            if likely > best:
                best, kept = likely, copy.deepcopy(net.state_dict())
        some = known[torch.randint(len(known), (min(_BATCH, len(known)),), generator=generator)]
        loss = -net.log_prob(features[some], directions[some]).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
    net.load_state_dict(kept)

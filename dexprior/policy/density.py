"""The behavioral prior as a density p(action chunk | observation): a conditional normalizing flow, or a mixture.

    density, told = fit_density(pairs, DensityConfig(), seed=0)
    context = density.context(observation)          # of the sentence asked for, where there are several
    density.log_prob_at(context, action)            # exact
    density.sample(context, generator)
    density.strangeness(observation)                # 1 is the edge of what it was fitted to

It knows no scene by number, so that it holds in scenes that were not seen. Flow: neural splines (Durkan et al. 2019)
in couplings; mixture: Bishop 1994; both from zuko.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_network, save_module
from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput, Diverged, UnknownName
from dexprior.policy.actor import ActorConfig, Features, Senses
from dexprior.policy.pairs import Pairs

__all__ = ["ActionDensity", "DensityConfig", "Standardised", "coverage", "fit_density", "load_density", "save_density"]

SCHEMA = "dexprior.action_density/1"


@config
class DensityConfig:
    """A density over actions, and its fit."""

    kind: Literal["flow", "mixture"] = "flow"
    """A normalizing flow, or a mixture of Gaussians."""
    chunk: Annotated[int, Ge(1)] = 1
    """Actions in a row that one observation gives."""
    width: Annotated[int, Ge(4)] = 128
    """Width of the hidden layers."""
    context: Annotated[int, Ge(1)] = 64
    """Numbers that what is seen is made into."""
    point_width: Annotated[int, Ge(4)] = 24
    """Width of the network that reads clouds, where there are any."""
    transforms: Annotated[int, Ge(1)] = 3
    """Layers of a flow."""
    bins: Annotated[int, Ge(2)] = 8
    """Pieces of each spline of a flow."""
    components: Annotated[int, Ge(1)] = 8
    """Gaussians of a mixture."""
    jitter: Annotated[float, Ge(0)] = 0.02
    """Standard deviation of noise on the actions that are fitted: no density becomes narrower."""
    blur: Annotated[float, Ge(0)] = 0.0
    """Standard deviation of noise on flat observations that are fitted, in units of their own spread."""
    steps: Annotated[int, Ge(1)] = 2000
    """Gradient steps."""
    batch: Annotated[int, Ge(1)] = 256
    """Chunks in a step."""
    rate: Annotated[float, Gt(0)] = 1e-3
    """Adam's, which falls to nothing along a cosine."""
    holdout: Annotated[float, Gt(0), Lt(1)] = 0.1
    """Share of the episodes that its spread and its edge are calibrated on."""


@config
class _Built:
    """What a density is built from."""

    config: DensityConfig
    actions: Annotated[int, Ge(1)]
    """Numbers in an action."""
    state: Annotated[int, Ge(0)] = 0
    """Numbers of a flat observation; 0 where `senses` say what is seen."""
    senses: Senses | None = None
    sentences: tuple[str, ...] = ()


class Standardised(nn.Module):
    """Flat observations (`state`) in units of their own spread.

    Args:
        size: numbers in an observation.
    """

    shift: Tensor
    unit: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("shift", torch.zeros(size))
        self.register_buffer("unit", torch.ones(size))

    def fit(self, state: Float[np.ndarray, "step number"]) -> None:
        """Take the spread of some observations."""
        self.shift.copy_(torch.from_numpy(state.mean(axis=0)))
        self.unit.copy_(torch.from_numpy(np.maximum(state.std(axis=0), _LEAST)))

    def forward(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch number"]:
        """Standardised, and cut at ten standard deviations."""
        return ((observation["state"] - self.shift) / self.unit).clamp(-10, 10)


_LEAST = 1e-3  # spread of a number that hardly changes


class ActionDensity(nn.Module):
    """p(action chunk | observation, sentence); chunks are laid out action after action."""

    action_shift: Tensor
    action_unit: Tensor
    temperature: Tensor
    seen_shift: Tensor
    seen_unit: Tensor
    landmarks: Tensor
    edge: Tensor

    def __init__(self, built: _Built) -> None:
        super().__init__()
        from zuko.flows import NSF
        from zuko.mixtures import GMM

        self.built, c = built, built.config
        self.config, self.sentences = c, built.sentences
        self.encoder: nn.Module = (
            Standardised(built.state)
            if built.senses is None
            else Features(ActorConfig(point_width=c.point_width), built.senses)
        )
        size, several = int(self.encoder.size), len(built.sentences) if len(built.sentences) > 1 else 0
        self._several = several
        self.embed = nn.Sequential(
            nn.Linear(size + several, c.width), nn.SiLU(), nn.Linear(c.width, c.width), nn.SiLU(),
            nn.Linear(c.width, c.context),
        )  # fmt: skip
        self.size = built.actions * c.chunk
        self.head: nn.Module = (
            NSF(
                self.size, c.context, bins=c.bins, transforms=c.transforms, passes=min(2, self.size),
                hidden_features=(c.width, c.width),
            )
            if c.kind == "flow"
            else GMM(self.size, c.context, c.components, "diagonal", hidden_features=(c.width,))
        )  # fmt: skip
        for name, value in {
            "action_shift": torch.zeros(self.size), "action_unit": torch.ones(self.size),
            "temperature": torch.ones(()), "seen_shift": torch.zeros(size), "seen_unit": torch.ones(size),
            "landmarks": torch.zeros(_LANDMARKS, size), "edge": torch.ones(()),
        }.items():  # fmt: skip
            self.register_buffer(name, value)

    def sentence(self, asked: str | None) -> int:
        """Index of a sentence; None takes the first.

        Raises:
            UnknownName: it was not fitted to that one.
        """
        if asked is None:
            return 0
        if asked not in self.sentences:
            raise UnknownName("sentence", asked, self.sentences)
        return self.sentences.index(asked)

    def context(self, observation: dict[str, Tensor], sentence: int | Tensor = 0) -> Float[Tensor, "batch context"]:
        """What `log_prob_at` and `sample` need of observations.

        Args:
            observation: of a batch of states, by name.
            sentence: index of what is asked for, one for all or one a state.
        """
        return self._embedded(self.encoder(observation), sentence)

    def log_prob_at(
        self, context: Float[Tensor, "batch context"], action: Float[Tensor, "batch action"]
    ) -> Float[Tensor, " batch"]:
        """Log density of action chunks; differentiable."""
        y = (action - self.action_shift) / self.action_unit
        found = self.head(context)
        if self.config.kind == "flow":
            z, slope = found.transform.call_and_ladj(y)
            value = _standard_normal(z / self.temperature).sum(-1) + slope
        else:
            mean, spread = found.base.base_dist.loc, found.base.base_dist.scale * self.temperature
            each = (_standard_normal((y[:, None] - mean) / spread) - spread.log()).sum(-1)
            return (found.logits.log_softmax(-1) + each).logsumexp(-1) - self.action_unit.log().sum()
        return value - self.size * self.temperature.log() - self.action_unit.log().sum()

    def sample(
        self, context: Float[Tensor, "batch context"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "batch action"]:
        """One action chunk for each state."""
        n = len(context)
        noise = torch.randn((n, self.size), generator=generator).to(context)
        found = self.head(context)
        if self.config.kind == "flow":
            y = found.transform.inv(self.temperature * noise)
        else:
            pick = torch.multinomial(found.logits.softmax(-1), 1, generator=generator)[:, 0]
            each = found.base.base_dist
            rows = torch.arange(n)
            y = each.loc[rows, pick] + self.temperature * each.scale[rows, pick] * noise
        return self.action_shift + self.action_unit * y

    def strangeness(self, observation: dict[str, Tensor]) -> Float[Tensor, " batch"]:
        """Distance of observations from those that it was fitted to: 1 at the 99th percentile of held-out ones."""
        return self._distance(self.encoder(observation)) / self.edge

    def _embedded(self, features: Tensor, sentence: int | Tensor) -> Tensor:
        if self._several:
            index = torch.as_tensor(sentence).expand(len(features))
            features = torch.cat([features, nn.functional.one_hot(index, self._several).to(features)], -1)
        return self.embed(features)

    def _distance(self, features: Tensor) -> Tensor:
        seen = (features - self.seen_shift) / self.seen_unit
        return torch.cdist(seen, self.landmarks).amin(1) / math.sqrt(seen.shape[1])


_LANDMARKS = 512  # observations that a density remembers, to know what is strange


def _standard_normal(z: Tensor) -> Tensor:
    return -0.5 * (z.square() + math.log(2 * math.pi))


def fit_density(
    pairs: Pairs, config: DensityConfig, *, seed: int, senses: Senses | None = None
) -> tuple[ActionDensity, dict[str, Any]]:
    """Fit a density by maximum likelihood, then calibrate its spread and its edge on episodes that are held out.

    Args:
        pairs: single actions; `chunk` of them in a row become one.
        config: of the density.
        seed: of weights and batches; the result is a function of it on one machine.
        senses: what the observations are; None for flat ones, named `state`.

    Returns:
        The density, and what held-out episodes say: their `nats` (mean log density of a chunk), `coverage` (level ->
        share of actions within the region of highest density of that level), and the numbers of `steps` fitted and held
        out.

    Raises:
        BadInput: fewer than two episodes, or observations of other names.
        Diverged: the fit's loss is not finite.
    """
    if senses is None and set(pairs.observation) != {"state"}:
        raise BadInput(f"a density without senses reads 'state' alone, these pairs hold {sorted(pairs.observation)}")
    known, held = (part.chunks(config.chunk) for part in pairs.split(config.holdout, seed))
    torch.manual_seed(seed)
    state = 0 if senses is not None else pairs.observation["state"].shape[1]
    built = _Built(
        config=config, actions=pairs.action.shape[1], state=state, senses=senses, sentences=pairs.sentences
    )  # fmt: skip
    density = ActionDensity(built)
    if isinstance(density.encoder, Standardised):
        density.encoder.fit(known.observation["state"])
    density.action_shift.copy_(torch.from_numpy(known.action.mean(axis=0)))
    density.action_unit.copy_(torch.from_numpy(np.maximum(known.action.std(axis=0), max(config.jitter, _LEAST))))
    _descend(density, _Tensors.of(known), seed)
    density.eval()
    with torch.no_grad():
        told = _calibrate(density, _Tensors.of(known), _Tensors.of(held), seed)
    return density, told | {"steps": len(known), "held_out": len(held)}


@dataclass(frozen=True)
class _Tensors:
    """Pairs as torch reads them."""

    observation: dict[str, Tensor]
    action: Tensor
    sentence: Tensor
    bodies: dict[str, Tensor]

    @classmethod
    def of(cls, pairs: Pairs) -> _Tensors:
        sentence = np.zeros(len(pairs), dtype=np.int64) if pairs.sentence is None else pairs.sentence
        return cls(
            {name: torch.from_numpy(value.astype(np.float32)) for name, value in pairs.observation.items()},
            torch.from_numpy(pairs.action.astype(np.float32)),
            torch.from_numpy(sentence.astype(np.int64)),
            {name: torch.from_numpy(value) for name, value in pairs.bodies.items()},
        )

    def __getitem__(self, ids: Tensor) -> _Tensors:
        return _Tensors(
            {name: value[ids] for name, value in self.observation.items()}, self.action[ids], self.sentence[ids],
            {name: value[ids] for name, value in self.bodies.items()},
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.action)


def _descend(density: ActionDensity, known: _Tensors, seed: int) -> None:
    """Gradient steps on the likelihood."""
    c = density.config
    optimizer = torch.optim.Adam(density.parameters(), lr=c.rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, c.steps)
    generator = torch.Generator().manual_seed(seed)
    finds = getattr(density.encoder, "finder", None) is not None and bool(known.bodies)
    for k in range(c.steps):
        some = known[torch.randint(len(known), (min(c.batch, len(known)),), generator=generator)]
        action = some.action + c.jitter * torch.randn(some.action.shape, generator=generator)
        features = density.encoder(some.observation)
        if c.blur and isinstance(density.encoder, Standardised):
            features = features + c.blur * torch.randn(features.shape, generator=generator)
        loss = -density.log_prob_at(density._embedded(features, some.sentence), action).mean()
        if finds:
            apart, _ = cast(Features, density.encoder).told_apart(some.observation, some.bodies)
            loss = loss + apart
        if not bool(torch.isfinite(loss)):
            raise Diverged(f"fitting a density: the loss of step {k + 1} is not finite; usually rate is too large")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(density.parameters(), 5.0)
        optimizer.step()
        falling.step()


def _calibrate(density: ActionDensity, known: _Tensors, held: _Tensors, seed: int) -> dict[str, Any]:
    """Set temperature, landmarks and edge; returns what held-out pairs say."""
    from scipy.optimize import minimize_scalar

    generator = torch.Generator().manual_seed(seed + 1)
    few = held[torch.randperm(len(held), generator=generator)[:_JUDGED]]
    action = few.action + density.config.jitter * torch.randn(few.action.shape, generator=generator)
    context = density.context(few.observation, few.sentence)

    def cost(log_temperature: float) -> float:
        density.temperature.fill_(math.exp(log_temperature))
        return -float(density.log_prob_at(context, action).mean())

    best = minimize_scalar(cost, bounds=(-1.5, 1.5), method="bounded", options={"xatol": 1e-3})
    nats = -cost(float(best.x))
    seen = torch.cat([density.encoder(known[ids].observation) for ids in torch.arange(len(known)).split(2048)])
    density.seen_shift.copy_(seen.mean(0))
    density.seen_unit.copy_(seen.std(0).clamp(min=_LEAST))
    pick = torch.randint(len(seen), (_LANDMARKS,), generator=generator)
    density.landmarks.copy_((seen[pick] - density.seen_shift) / density.seen_unit)
    density.edge.copy_(density._distance(density.encoder(few.observation)).quantile(0.99).clamp(min=_LEAST))
    return {
        "nats": nats, "temperature": float(density.temperature),
        "coverage": coverage(density, context, action, generator=generator),
    }  # fmt: skip


_JUDGED = 2000  # held-out chunks that a density is calibrated on


def coverage(
    density: ActionDensity,
    context: Float[Tensor, "batch context"],
    action: Float[Tensor, "batch action"],
    *,
    levels: tuple[float, ...] = (0.5, 0.9),
    draws: int = 64,
    generator: torch.Generator | None = None,
) -> dict[str, float]:
    """Share of actions within the region of highest density of each level, by draws of the density's own: calibrated
    where it is the level (Hyndman 1996)."""
    own = density.log_prob_at(context, action)
    drawn = torch.stack([density.log_prob_at(context, density.sample(context, generator)) for _ in range(draws)])
    beyond = (drawn > own).float().mean(0)
    return {f"{level:g}": float((beyond <= level).float().mean()) for level in levels}


def save_density(density: ActionDensity, path: Path, *, seed: int, extra: dict[str, Any] | None = None) -> Path:
    """Write a density as one file."""
    return save_module(density, path, schema=SCHEMA, producer="density", config=density.built, seed=seed, extra=extra)


def load_density(path: str | Path) -> ActionDensity:
    """Read what `save_density` wrote.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(
        path, schema=SCHEMA, config=_Built, network=ActionDensity, command="dexprior build-behavior density.kind=flow"
    )

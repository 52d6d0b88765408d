"""The surrogate: a small network from the approach of two bodies to their contact impulse.

It sees the contact only, through the contact velocity u = J v and the Delassus operator A = J M^-1 J^T, so
that the same network applies to any pair of bodies. Everything it reads and writes is dimensionless, up to
the impact speed:

    in    u_t/|u_n|, A_tn/A_nn, log(A_tt/A_nn), phi on its unit scale, log|u_n|
    out   a restitution e >= 0, a friction ratio r in (-mu, mu), and two log-sigmas
    then  p_n = (1 + e) / (1 + r A_tn/A_nn)   (so that the contact separates at e |u_n|)
          p_t = r p_n                         (inside the friction cone, always)
          p  <- s p, s <= 1                   (the largest s that adds no kinetic energy)

with impulses in units of |u_n|/A_nn. Mirroring the tangent mirrors the answer exactly: the network is
averaged over both readings. The formulas are written once, for NumPy (prediction) and for torch (training)
alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dexprior.artifacts import load_module, save_module
from dexprior.collision.generator import CollisionPairs
from dexprior.collision.parameters import ContactRanges
from dexprior.config import Ge, config, validate
from dexprior.data.impacts import CONTACT_PARAMETERS
from dexprior.errors import ArtifactError, BadInput
from dexprior.types.collision import ContactGeometry

__all__ = [
    "SCHEMA",
    "ImpulseNetwork",
    "Surrogate",
    "SurrogateConfig",
    "apply_impulse",
    "contact_velocity",
    "seen_range",
]

SCHEMA = "dexprior.collision/1"

_FEATURES = 4 + len(CONTACT_PARAMETERS)
_HEADS = 4  # restitution, friction ratio, log-sigma normal, log-sigma tangential
_ODD = np.array([1.0, -1.0, 1.0, 1.0])  # parity of the heads under mirroring the tangent
_MIN_EFFECT = 0.2  # 1 + r A_tn/A_nn is kept above it: below lies jamming, where one impulse has no meaning
_MIN_SPEED = 1e-9  # [m/s]
_LOG_SIGMA = (-7.0, 2.0)


@config
class SurrogateConfig:
    """Size of the network, and the parameters that it knows."""

    width: Annotated[int, Ge(4)] = 64
    """Units per hidden layer."""
    depth: Annotated[int, Ge(1)] = 3
    """Hidden layers."""
    ranges: ContactRanges = ContactRanges()
    """Contact parameters that it was trained on."""


class ImpulseNetwork(nn.Module):
    """The network in torch, for training; `Surrogate` is the same in NumPy."""

    def __init__(self, config: SurrogateConfig) -> None:
        super().__init__()
        self.config = config
        sizes = [_FEATURES, *[config.width] * config.depth, _HEADS]
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in itertools.pairwise(sizes)])

    def forward(
        self,
        approach: Float[Tensor, "batch 2"],
        delassus: Float[Tensor, "batch 2 2"],
        phi: Float[Tensor, "batch parameter"],
    ) -> tuple[Float[Tensor, "batch 2"], Float[Tensor, "batch 2"]]:
        """Dimensionless impulse [normal, tangential] and its log-sigma, in units of |u_n|/A_nn."""
        weights = [(layer.weight, layer.bias) for layer in self.layers]
        return _impulse(torch, weights, self.config.ranges, approach, delassus, phi)


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """A trained collision model; implements `dexprior.types.CollisionModel` in NumPy."""

    config: SurrogateConfig
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Weight (out, in) and bias (out,) of each layer."""
    seen: Float[np.ndarray, "4 2"]
    """Range of the contact features in training: u_t/|u_n|, A_tn/A_nn, log(A_tt/A_nn), log|u_n|."""
    phi: Float[np.ndarray, " parameter"] | None = None
    """Contact parameters identified for one pair of materials, where that was done."""

    @classmethod
    def from_network(
        cls, network: ImpulseNetwork, seen: Float[np.ndarray, "4 2"], phi: np.ndarray | None = None
    ) -> Surrogate:
        """Copy a network's weights to NumPy (float64)."""
        layers = tuple(
            (_as_numpy(layer.weight), _as_numpy(layer.bias))  # type: ignore[arg-type]
            for layer in network.layers
        )
        return cls(config=network.config, layers=layers, seen=np.asarray(seen), phi=phi)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of `phi`."""
        return CONTACT_PARAMETERS

    def predict(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> tuple[Float[np.ndarray, "batch dof"], Float[np.ndarray, "batch dof"]]:
        """Velocity after the impact and its standard deviation; a contact that separates is left alone.

        Raises:
            BadInput: `phi` has the wrong number of columns, or is not positive.
        """
        phi = np.asarray(phi, dtype=np.float64)
        if phi.ndim != 2 or phi.shape[1] != len(CONTACT_PARAMETERS) or not (phi > 0).all():
            raise BadInput(
                f"predict: phi of shape {phi.shape} must be (batch, {len(CONTACT_PARAMETERS)}), positive: "
                + ", ".join(CONTACT_PARAMETERS)
            )
        approach, delassus = contact_velocity(pre, geometry), geometry.delassus
        impulse, log_sigma = _impulse(np, self.layers, self.config.ranges, approach, delassus, phi)
        unit = np.maximum(-approach[:, :1], 0.0) / delassus[:, 0, :1]  # [N s]; 0 where the contact separates
        return apply_impulse(pre, geometry, impulse * unit, np.exp(log_sigma) * unit)

    def inside(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> Bool[np.ndarray, " batch"]:
        """Whether an impact lies within what was seen in training; outside, a prediction is a guess."""
        approach = contact_velocity(pre, geometry)
        features = _contact_features(np, approach, geometry.delassus)
        low, high = self.seen.T
        known = ((features >= low) & (features <= high)).all(axis=1)
        return known & (approach[:, 0] < 0) & self.config.ranges.contains(phi)

    def network(self) -> ImpulseNetwork:
        """The same model in torch, to train further."""
        network = ImpulseNetwork(self.config)
        state: dict[str, Tensor] = {}
        for k, (weight, bias) in enumerate(self.layers):
            state |= {
                f"layers.{k}.weight": torch.as_tensor(weight),
                f"layers.{k}.bias": torch.as_tensor(bias),
            }
        network.load_state_dict(state)
        return network

    def save(self, path: str | Path, *, producer: str, seed: int | None, parents: tuple[str, ...] = ()) -> Path:
        """Write the model as one safetensors file."""
        extra = {"seen": self.seen.tolist(), "phi": None if self.phi is None else self.phi.tolist()}
        return save_module(
            self.network(),
            path,
            schema=SCHEMA,
            producer=producer,
            config=self.config,
            seed=seed,
            extra=extra,
            parents=parents,
        )

    @classmethod
    def load(cls, path: str | Path) -> Surrogate:
        """Read what `save` wrote.

        Raises:
            ArtifactError: missing, damaged or foreign file, or weights that its configuration does not fit.
        """
        state, plain, extra = load_module(path, schema=SCHEMA)
        network = ImpulseNetwork(validate(SurrogateConfig, plain, where=str(path)))
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            raise ArtifactError(f"{path}: the weights do not fit its own configuration: {error}") from None
        phi = None if extra["phi"] is None else np.array(extra["phi"])
        return cls.from_network(network, np.array(extra["seen"]), phi)


def contact_velocity(
    velocity: Float[np.ndarray, "batch dof"], geometry: ContactGeometry
) -> Float[np.ndarray, "batch 2"]:
    """u = J v, [normal, tangential]."""
    return np.einsum("bcd,bd->bc", geometry.jacobian, velocity)


def apply_impulse(
    pre: Float[np.ndarray, "batch dof"],
    geometry: ContactGeometry,
    impulse: Float[np.ndarray, "batch 2"],
    sigma: Float[np.ndarray, "batch 2"],
) -> tuple[Float[np.ndarray, "batch dof"], Float[np.ndarray, "batch dof"]]:
    """v + M^-1 J^T p, and the standard deviation that independent errors of p give it."""
    response = np.einsum("bde,bce->bdc", geometry.inverse_inertia, geometry.jacobian)
    post = pre + np.einsum("bdc,bc->bd", response, impulse)
    return post, np.sqrt(np.einsum("bdc,bc->bd", response**2, sigma**2))


def seen_range(pairs: CollisionPairs) -> Float[np.ndarray, "4 2"]:
    """Range of the contact features over the training pairs, closed under mirroring the tangent."""
    features = _contact_features(np, pairs.approach, pairs.delassus)
    low, high = features.min(axis=0), features.max(axis=0)
    for odd in (0, 1):
        high[odd] = max(high[odd], -low[odd])
        low[odd] = -high[odd]
    return np.stack([low, high], axis=1)


# --- one set of formulas for NumPy and torch --------------------------------------------------------------


def _contact_features(xp: Any, approach: Any, delassus: Any) -> Any:
    speed = xp.clip(-approach[:, 0], _MIN_SPEED, None)
    a_nn = delassus[:, 0, 0]
    return xp.stack(
        [
            approach[:, 1] / speed,
            delassus[:, 0, 1] / a_nn,
            xp.log(delassus[:, 1, 1] / a_nn),
            xp.log(speed),
        ],
        -1,
    )


def _impulse(
    xp: Any, layers: Sequence[tuple[Any, Any]], ranges: ContactRanges, approach: Any, delassus: Any, phi: Any
) -> tuple[Any, Any]:
    """Dimensionless impulse and log-sigma; see the module's docstring."""
    contact = _contact_features(xp, approach, delassus)
    slide, coupling, log_tangent, log_speed = (contact[:, k] for k in range(4))
    unit = ranges.to_unit(xp, phi)
    unit = [unit[:, k] for k in range(unit.shape[1])]
    slip = slide / (1.0 + abs(slide))  # sliding ratios beyond a few all mean "slips throughout"

    straight = _multilayer(xp, layers, xp.stack([slip, coupling, log_tangent, log_speed, *unit], -1))
    mirrored = _multilayer(xp, layers, xp.stack([-slip, -coupling, log_tangent, log_speed, *unit], -1))
    parity = _ODD if xp is np else xp.as_tensor(_ODD, dtype=straight.dtype, device=straight.device)
    heads = (straight + parity * mirrored) / 2.0

    restitution = _softplus(xp, heads[:, 0])
    ratio = phi[:, 0] * xp.tanh(heads[:, 1])
    normal = (1.0 + restitution) / xp.clip(1.0 + ratio * coupling, _MIN_EFFECT, None)
    tangential = ratio * normal
    linear = -normal + slide * tangential  # work of the impulse against the velocity before it
    quadratic = normal**2 + 2.0 * coupling * normal * tangential + xp.exp(log_tangent) * tangential**2
    passive = xp.clip(-2.0 * linear / quadratic, 0.0, 1.0)
    return xp.stack([passive * normal, passive * tangential], -1), xp.clip(heads[:, 2:], *_LOG_SIGMA)


def _multilayer(xp: Any, layers: Sequence[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in layers[:-1]:
        x = x @ weight.T + bias
        x = 0.5 * x * (1.0 + xp.tanh(0.5 * x))  # SiLU, written so that it cannot overflow
    weight, bias = layers[-1]
    return x @ weight.T + bias


def _softplus(xp: Any, x: Any) -> Any:
    return 0.5 * (x + abs(x)) + xp.log1p(xp.exp(-abs(x)))


def _as_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(np.float64)

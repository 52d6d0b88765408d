"""The surrogate: a small network from the approach of two bodies to their contact impulse.

It sees the contact only, through the contact velocity u = J v and the Delassus operator A = J M^-1 J^T, so
that the same network applies to any pair of bodies. Everything it reads and writes is dimensionless, up to
the impact speed:

    in    u_t/|u_n|, A_tn/A_nn, log(A_tt/A_nn), phi at this speed on its unit scale, log|u_n|
    out   a restitution e >= 0 and a friction ratio r in (-mu, mu)
    then  p_n = (1 + e) / (1 + r A_tn/A_nn)   (so that the contact separates at e |u_n|)
          p_t = r p_n                         (inside the friction cone, always)
    and   p <- p + residual(z)                (where calibrated on measured impacts; held in the widest cone)
    and   p <- s p, s <= 1                    (the largest s that adds no kinetic energy)

with impulses in units of |u_n|/A_nn. Mirroring the tangent mirrors the network's answer exactly: it is averaged
over both readings. Its formulas are written once, for NumPy (prediction) and for torch (training) alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dexprior.artifacts import load_module, make_header, write_tensors
from dexprior.collision import kernel
from dexprior.collision.generator import CollisionPairs
from dexprior.collision.parameters import PARAMETERS, ContactRanges
from dexprior.collision.residual import ImpulseResidual, residual_inputs
from dexprior.config import Ge, config, to_plain, validate
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS
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

SCHEMA = "dexprior.collision/3"

_FEATURES = 4 + len(CONTACT_PARAMETERS)
_HEADS = 2  # restitution, friction ratio
_MIN_SPEED = 1e-9  # [m/s]
_CHUNK = 512  # impacts whose activations stay in the cache
_STEP = 1e-3  # of a finite difference in the unit scale of phi


@config
class SurrogateConfig:
    """Size of the network, and the parameters that it knows."""

    width: Annotated[int, Ge(4)] = 48
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
        simulated: Float[Tensor, "batch parameter"],
    ) -> Float[Tensor, "batch 2"]:
        """Dimensionless impulse [normal, tangential], in units of |u_n|/A_nn.

        Args:
            approach: contact velocity before [m/s].
            delassus: [1/kg].
            simulated: what the simulator is given, in the order of `CONTACT_PARAMETERS`.
        """
        contact = _contact_features(torch, approach, delassus)
        return _passive(torch, contact, _impulse(torch, self._multilayer, self.config.ranges, contact, simulated))

    def _multilayer(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = nn.functional.silu(layer(x))
        return last(x)


@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """A trained collision model; implements `dexprior.types.CollisionModel` in NumPy."""

    config: SurrogateConfig
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Weight (out, in) and bias (out,) of each layer."""
    seen: Float[np.ndarray, "4 2"]
    """Range of the contact features in training: u_t/|u_n|, A_tn/A_nn, log(A_tt/A_nn), log|u_n|."""
    scatter: Float[np.ndarray, " 2"]
    """Standard deviation of the simulator's impulse about the network, in units of |u_n|/A_nn."""
    phi: Float[np.ndarray, " parameter"] | None = None
    """Contact parameters identified for one pair of materials, where that was done."""
    phi_covariance: Float[np.ndarray, "parameter parameter"] | None = None
    """Covariance of the identified parameters, on their unit scale."""
    residuals: Mapping[str, ImpulseResidual] = field(default_factory=dict)
    """What measured impacts add: `context` where the geometry has one, `contact` where it has none."""
    kernel: Callable[..., tuple[float, float]] = field(default=kernel.impulse, repr=False, compare=False)
    """Answers a single impact; `compiled()` gives a model whose kernel is compiled."""

    @classmethod
    def from_network(
        cls,
        network: ImpulseNetwork,
        seen: Float[np.ndarray, "4 2"],
        scatter: Float[np.ndarray, " 2"] | None = None,
    ) -> Surrogate:
        """Copy a network's weights to NumPy (float64)."""
        layers = tuple(
            (_as_numpy(layer.weight), _as_numpy(layer.bias))  # type: ignore[arg-type]
            for layer in network.layers
        )
        spread = np.zeros(2) if scatter is None else np.asarray(scatter)
        return cls(config=network.config, layers=layers, seen=np.asarray(seen), scatter=spread)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of `phi`."""
        return PARAMETERS

    @property
    def rows(self) -> int:
        """Normal and tangent."""
        return 2

    def predict(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> tuple[Float[np.ndarray, "batch dof"], Float[np.ndarray, "batch dof"]]:
        """Velocity after the impact and its standard deviation; a contact that separates is left alone.

        Raises:
            BadInput: `phi` has the wrong number of columns, or is not positive where it must be.
        """
        approach = contact_velocity(pre, geometry)
        impulse, std = self._impulse_at(approach, geometry, phi)
        unit = np.maximum(-approach[:, :1], 0.0) / geometry.delassus[:, 0, :1]  # [N s]; 0 where it separates
        return apply_impulse(pre, geometry, impulse * unit, std * unit)

    def impulse(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> tuple[Float[np.ndarray, "batch 2"], Float[np.ndarray, "batch 2"]]:
        """Contact impulse in units of |u_n|/A_nn, and its standard deviation: residual, noise and phi's own.

        Raises:
            BadInput: as `predict`.
        """
        return self._impulse_at(contact_velocity(pre, geometry), geometry, phi)

    def _impulse_at(
        self, approach: np.ndarray, geometry: ContactGeometry, phi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        phi = np.asarray(phi, dtype=np.float64)
        simulated = len(CONTACT_PARAMETERS)
        if phi.ndim != 2 or phi.shape[1] != len(PARAMETERS) or not (phi[:, :simulated] > 0).all():
            raise BadInput(
                f"predict: phi of shape {phi.shape} must be (batch, {len(PARAMETERS)}), and positive but for the "
                f"last: {', '.join(PARAMETERS)}"
            )
        contact = _contact_features(np, approach, geometry.delassus)
        mean = self._network(contact, phi)
        residual = self._residual(geometry)
        if residual is None:
            std = np.broadcast_to(self.scatter, mean.shape)
        else:
            missed, std = residual.predict(
                residual_inputs(approach, geometry, context=residual is self.residuals.get("context"))
            )
            mean = mean + missed
            normal = np.maximum(mean[:, 0], 0.0)
            cone = self.config.ranges.friction[1] * normal
            mean = np.stack([normal, np.clip(mean[:, 1], -cone, cone)], axis=-1)
        if self.phi_covariance is not None:
            std = np.sqrt(std**2 + self._spread_of_phi(contact, phi))
        return _passive(np, contact, mean), std

    def network_impulse(
        self,
        approach: Float[np.ndarray, "batch 2"],
        delassus: Float[np.ndarray, "batch 2 2"],
        phi: Float[np.ndarray, "batch parameter"],
    ) -> Float[np.ndarray, "batch 2"]:
        """The network's impulse alone, without what measured impacts add."""
        contact = _contact_features(np, approach, delassus)
        return _passive(np, contact, self._network(contact, phi))

    def compiled(self) -> Surrogate:
        """The same model, whose answers to single impacts are compiled (a second or two at the first one).

        Raises:
            MissingExtra: numba is not installed.
        """
        return replace(self, kernel=kernel.compiled())

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

    @cached_property
    def _halved(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Layers with half the weights, transposed: SiLU(y) = z (1 + tanh z) with z = y / 2."""
        *hidden, last = self.layers
        halved = [(np.ascontiguousarray(weight.T) / 2.0, bias / 2.0) for weight, bias in hidden]
        return (*halved, (np.ascontiguousarray(last[0].T), last[1]))

    def _network(self, contact: Float[np.ndarray, "batch 4"], phi: np.ndarray) -> np.ndarray:
        ranges, n = self.config.ranges, len(contact)
        simulated = ranges.at_speed(np, phi, np.exp(contact[:, 3]))
        if n == 1:
            middle, half = ranges.simulated_scale
            return np.array([self.kernel(*contact[0].tolist(), simulated[0], middle, half, *self._packed)])
        if n <= _CHUNK:
            return _impulse(np, self._multilayer, ranges, contact, simulated)
        parts = [slice(k, k + _CHUNK) for k in range(0, n, _CHUNK)]
        return np.concatenate([_impulse(np, self._multilayer, ranges, contact[p], simulated[p]) for p in parts])

    @cached_property
    def _packed(self) -> tuple[np.ndarray, ...]:
        """Halved weights as the kernel takes them: first, hidden, biases, last, last bias."""
        (first, _), *hidden, (last, last_bias) = self._halved
        width = first.shape[1]
        middle = np.stack([w for w, _ in hidden]) if hidden else np.zeros((0, width, width))
        return first, middle, np.stack([b for _, b in self._halved[:-1]]), last, last_bias

    def _multilayer(self, x: np.ndarray) -> np.ndarray:
        *hidden, (weight, bias) = self._halved
        for w, b in hidden:
            z = x @ w
            z += b
            x = np.tanh(z)
            x += 1.0
            x *= z
        return x @ weight + bias

    def _residual(self, geometry: ContactGeometry) -> ImpulseResidual | None:
        return self.residuals.get("contact" if geometry.context is None else "context")

    def _spread_of_phi(self, contact: np.ndarray, phi: np.ndarray) -> Float[np.ndarray, "batch 2"]:
        """Variance of the impulse that the uncertainty of the identified parameters makes (first order)."""
        assert self.phi_covariance is not None
        ranges, count, n = self.config.ranges, len(PARAMETERS), len(phi)
        unit = ranges.to_unit(np, phi)
        shifted = np.concatenate([unit, *(unit + _STEP * np.eye(count)[k] for k in range(count))])
        impulse = self._network(np.tile(contact, (count + 1, 1)), ranges.from_unit(np, shifted))
        impulse = impulse.reshape(count + 1, n, 2)
        slope = (impulse[1:] - impulse[:1]) / _STEP
        return np.einsum("pnc,pq,qnc->nc", slope, self.phi_covariance, slope)

    def network(self) -> ImpulseNetwork:
        """The same network in torch, to train further."""
        network = ImpulseNetwork(self.config)
        network.load_state_dict({k: torch.as_tensor(v) for k, v in self._weights().items()})
        return network

    def _weights(self) -> dict[str, np.ndarray]:
        return {
            f"layers.{k}.{name}": value
            for k, layer in enumerate(self.layers)
            for name, value in zip(("weight", "bias"), layer)
        }

    def save(self, path: str | Path, *, producer: str, seed: int | None, parents: tuple[str, ...] = ()) -> Path:
        """Write the model as one safetensors file."""
        tensors = self._weights() | {"seen": self.seen, "scatter": self.scatter}
        for name in ("phi", "phi_covariance"):
            if getattr(self, name) is not None:
                tensors[name] = getattr(self, name)
        for name, residual in self.residuals.items():
            tensors |= residual.arrays(f"residual/{name}")
        header = make_header(SCHEMA, producer=producer, seed=seed, config=self.config, parents=parents)
        meta = {"header": asdict(header), "config": to_plain(self.config), "extra": {}}
        return write_tensors(path, tensors, meta)

    @classmethod
    def load(cls, path: str | Path) -> Surrogate:
        """Read what `save` wrote.

        Raises:
            ArtifactError: missing, damaged or foreign file, or weights that its configuration does not fit.
        """
        state, plain, _ = load_module(path, schema=SCHEMA)
        config = validate(SurrogateConfig, plain, where=str(path))
        weights = {k: v for k, v in state.items() if k.startswith("layers.")}
        try:
            ImpulseNetwork(config).load_state_dict(weights)
        except RuntimeError as error:
            raise ArtifactError(f"{path}: the weights do not fit its own configuration: {error}") from None
        arrays = {k: v.numpy() for k, v in state.items()}
        found = {name: ImpulseResidual.from_arrays(arrays, f"residual/{name}") for name in ("contact", "context")}
        layers = range(len(weights) // 2)
        return cls(
            config=config,
            layers=tuple((arrays[f"layers.{k}.weight"], arrays[f"layers.{k}.bias"]) for k in layers),
            seen=arrays["seen"],
            scatter=arrays["scatter"],
            phi=arrays.get("phi"),
            phi_covariance=arrays.get("phi_covariance"),
            residuals={name: residual for name, residual in found.items() if residual is not None},
        )


def contact_velocity(
    velocity: Float[np.ndarray, "batch dof"], geometry: ContactGeometry
) -> Float[np.ndarray, "batch contact"]:
    """u = J v, [normal, tangential ...]."""
    return np.einsum("bcd,bd->bc", geometry.jacobian, velocity)


def apply_impulse(
    pre: Float[np.ndarray, "batch dof"],
    geometry: ContactGeometry,
    impulse: Float[np.ndarray, "batch contact"],
    sigma: Float[np.ndarray, "batch contact"],
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


def _impulse(xp: Any, multilayer: Callable[[Any], Any], ranges: ContactRanges, contact: Any, simulated: Any) -> Any:
    """Dimensionless impulse inside the friction cone; see the module's docstring."""
    slide, coupling = contact[:, 0], contact[:, 1]
    slip = slide / (1.0 + abs(slide))  # sliding ratios beyond a few all mean "slips throughout"
    even = xp.concatenate([contact[:, 2:], ranges.to_unit(xp, simulated)], -1)
    odd = xp.stack([slip, coupling], -1)
    straight, mirrored = xp.concatenate([odd, even], -1), xp.concatenate([-odd, even], -1)
    both = multilayer(xp.concatenate([straight, mirrored]))
    n = len(slide)
    grip = 0.5 * (both[:n, 1] - both[n:, 1])  # odd under mirroring the tangent, and the other head even
    restitution = _softplus(xp, 0.5 * (both[:n, 0] + both[n:, 0]))
    ratio = simulated[:, 0] * xp.tanh(grip)
    normal = (1.0 + restitution) / xp.clip(1.0 + ratio * coupling, kernel.MIN_EFFECT, None)
    return xp.stack([normal, ratio * normal], -1)


def _passive(xp: Any, contact: Any, impulse: Any) -> Any:
    """Scale an impulse down to the largest multiple that adds no kinetic energy."""
    slide, coupling, log_tangent = (contact[:, k] for k in range(3))
    normal, tangential = impulse[:, 0], impulse[:, 1]
    linear = -normal + slide * tangential  # work of the impulse against the velocity before it
    quadratic = normal**2 + 2.0 * coupling * normal * tangential + xp.exp(log_tangent) * tangential**2
    scale = xp.clip(-2.0 * linear / xp.clip(quadratic, 1e-12, None), 0.0, 1.0)
    return impulse * scale[:, None]


def _softplus(xp: Any, x: Any) -> Any:
    return 0.5 * (x + abs(x)) + xp.log1p(xp.exp(-abs(x)))


def _as_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(np.float64)

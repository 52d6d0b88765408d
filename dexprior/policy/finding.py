"""Which body each point of a cloud lies on, where no label says so.

Learned by the cross-entropy to the true bodies, which only training knows; a policy's own loss does not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["Finder", "Found"]

_WIDTH = 16
_LENGTH = 0.1  # [m] that becomes 1
_FINE = 0.01  # [m] that becomes 1/2
_CLOUDS = ("first_cloud", "cloud")  # in the order in which they are read
_AT_ONCE = 64  # transitions: more do not fit into a CPU's cache


@dataclass(frozen=True)
class Found:
    """The bodies in a cloud."""

    cloud: Float[Tensor, "batch point 3"]
    """Its points in an order of their own [m]."""
    weight: Float[Tensor, "batch body point"]
    """How much each point counts for each body, for at most one of them: by how much likelier it is to lie on that one
    than on all others. Of a point that the cloud holds several times all but one count for nothing: what stands in for
    hidden points moves no middle."""
    middle: Float[Tensor, "batch body 3"]
    """Where the points of each body are in the mean [m]; of a body that is hidden now, where it was before."""

    @property
    def count(self) -> Float[Tensor, "batch body"]:
        """Points of each body."""
        return self.weight.sum(2)

    def relative(self) -> Float[Tensor, "batch point 3"]:
        """Points from the middle of their body [m]."""
        return self.cloud - (self.weight > 0).to(self.cloud).mT @ self.middle

    def mean(self, value: Float[Tensor, "batch point number"]) -> Float[Tensor, "batch body number"]:
        """Mean over the points of each body, towards 0 where it has less than one."""
        return self.weight @ value / self.count[..., None].clamp(min=1.0)

    def largest(self, value: Float[Tensor, "batch point number"]) -> Float[Tensor, "batch body number"]:
        """Largest over the points of each body, and 0 at least where points lie on others."""
        with torch.no_grad():
            rows = zip(value.split(_AT_ONCE), self.weight.split(_AT_ONCE))
            at = torch.cat([_places_of_largest(*few) for few in rows])
        return value.gather(1, at) * self.weight.gather(2, at)


def _places_of_largest(
    value: Float[Tensor, "batch point number"], weight: Float[Tensor, "batch body point"]
) -> Int[Tensor, "batch body number"]:
    """Where the weighted values are largest, in a quarter of the time that a CPU takes for it where the points do not
    lie side by side in memory."""
    place = torch.arange(float(value.shape[1])).to(value)
    each = value.mT.contiguous()[:, None] * weight[:, :, None]
    at = each.sub_(each.amax(3, keepdim=True)).mul_(1e30).add_(place).amax(3)
    return at.nan_to_num(0.0).long()  # a number that is not finite is the loss's to report


_PARTS = tuple(part.name for part in fields(Found))


class Finder(nn.Module):
    """A network of two layers on every point, which sees what is pooled over all of them, and where else things are.

    Points are given in the work area, and finely from the tool and from where bodies were when the episode began.

    Args:
        bodies: how many there are.
        centre: of the work area [m].
    """

    centre: Tensor

    def __init__(self, bodies: int, centre: Float[Tensor, " 3"]) -> None:
        super().__init__()
        w = _WIDTH
        self.bodies = bodies
        self.register_buffer("centre", centre, persistent=False)
        self.each, self.known = nn.Linear(6 + 3 * bodies, w), nn.Linear(3, w, bias=False)
        self.second, self.pooled = nn.Linear(w, w), nn.Linear(2 * w, w, bias=False)
        self.say = nn.Linear(w, bodies)

    @torch.no_grad()
    def forward(self, observation: Mapping[str, Tensor], tool: Float[Tensor, "batch 3"]) -> dict[str, Found]:
        """The bodies in `cloud` and `first_cloud` of observations.

        Args:
            observation: holds both, or what `noted` says of them.
            tool: where it is [m].
        """
        if f"{_CLOUDS[0]}/weight" in observation:
            return {name: Found(**{part: observation[f"{name}/{part}"] for part in _PARTS}) for name in _CLOUDS}
        return {name: found for name, found, _, _ in self._found(observation, tool)}

    def noted(self, observation: Mapping[str, Tensor], tool: Float[Tensor, "batch 3"]) -> dict[str, Tensor]:
        """The same as further entries of the observations: who reads these many times asks once."""
        rows = []
        for few in torch.arange(len(tool)).split(_AT_ONCE):
            found = self({name: observation[name][few] for name in _CLOUDS}, tool[few])
            rows.append({f"{name}/{part}": getattr(found[name], part) for name in _CLOUDS for part in _PARTS})
        return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}

    def told_apart(
        self, observation: Mapping[str, Tensor], tool: Float[Tensor, "batch 3"], bodies: Mapping[str, Tensor]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """How well bodies are found: mean cross-entropy, and the share of points whose body is the likeliest.

        Args:
            bodies: of each cloud, which body every point lies on (batch, point).
        """
        loss, right = [], []
        for name, _, likely, order in self._found(observation, tool):
            lies = bodies[name].gather(1, order).long()
            loss.append(nn.functional.nll_loss(likely, lies))
            right.append((likely.detach().argmax(1) == lies).float().mean())
        return torch.stack(loss).mean(), torch.stack(right).mean()

    def _found(
        self, observation: Mapping[str, Tensor], tool: Float[Tensor, "batch 3"]
    ) -> Iterator[tuple[str, Found, Float[Tensor, "batch body point"], Int[Tensor, "batch point"]]]:
        """Name of each cloud, the bodies in it, the logarithms of how likely its points lie on each, and the order of
        its points."""
        middle = None
        for name in _CLOUDS:
            cloud = observation[name]
            place = cloud[..., 0] + 1.6 * cloud[..., 1] + 2.7 * cloud[..., 2]  # one number, the same of copies alone
            key, order = place.sort(1)
            cloud = cloud.gather(1, order[..., None].expand(-1, -1, 3))
            middle = cloud.mean(1, keepdim=True).expand(-1, self.bodies, -1) if middle is None else middle
            likely = self._likely(cloud, tool, middle)
            new = torch.ones_like(key)
            new[:, 1:] = key[:, 1:] != key[:, :-1]
            weight = (2.0 * likely.detach().exp() - 1.0).clamp_(min=0.0).mul_(new[:, None])
            found = Found(cloud, weight, middle)
            middle = found.mean(cloud) + (1.0 - found.count).clamp(min=0.0)[..., None] * middle
            yield name, replace(found, middle=middle), likely, order

    def _likely(
        self,
        cloud: Float[Tensor, "batch point 3"],
        tool: Float[Tensor, "batch 3"],
        middle: Float[Tensor, "batch body 3"],
    ) -> Float[Tensor, "batch body point"]:
        others = torch.cat([tool[:, None], middle], 1).flatten(1)[:, None]
        apart = cloud.repeat(1, 1, 1 + self.bodies).sub_(others)
        points = torch.cat([(cloud - self.centre) / _LENGTH, apart / (apart.abs() + _FINE)], -1)
        known = self.known((tool - self.centre) / _LENGTH)
        one = self.each(points).add_(known[:, None]).relu_()
        pooled = self.pooled(torch.cat([one.amax(1), one.mean(1)], -1))
        two = self.second(one).add_(pooled[:, None]).relu_()
        return self.say(two).mT.contiguous().log_softmax(1)

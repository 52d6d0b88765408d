"""Collision models that are simple enough to know the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dexprior.collision import RestitutionFriction


@dataclass
class Counted:
    """A model that counts its calls and questions."""

    inner: object = field(default_factory=RestitutionFriction)
    calls: int = 0
    questions: int = 0

    @property
    def parameters(self):
        return self.inner.parameters

    @property
    def rows(self):
        return self.inner.rows

    def predict(self, pre, geometry, phi):
        self.calls += 1
        self.questions += len(pre)
        return self.inner.predict(pre, geometry, phi)


class Sticking:
    """Restitution along the normal, no sliding left along both tangents. phi = (e,)."""

    parameters = ("restitution",)
    rows = 3

    def predict(self, pre, geometry, phi):
        u = np.einsum("bcd,bd->bc", geometry.jacobian, pre)
        change = -u * np.stack([1.0 + phi[:, 0], np.ones(len(u)), np.ones(len(u))], axis=1)
        impulse = np.linalg.solve(geometry.delassus, change[..., None])
        post = pre + (geometry.inverse_inertia @ geometry.jacobian.transpose(0, 2, 1) @ impulse)[..., 0]
        return post, np.zeros_like(post)


@dataclass(frozen=True)
class Uncertain:
    """Restitution and friction with a standard deviation of the contact impulse, relative to its normal part."""

    spread: float
    inner: RestitutionFriction = field(default_factory=RestitutionFriction)

    @property
    def parameters(self):
        return self.inner.parameters

    @property
    def rows(self):
        return self.inner.rows

    def predict(self, pre, geometry, phi):
        post, _ = self.inner.predict(pre, geometry, phi)
        approach = np.einsum("bd,bd->b", geometry.jacobian[:, 0], pre)
        unit = -approach / geometry.delassus[:, 0, 0]
        response = geometry.inverse_inertia @ geometry.jacobian.transpose(0, 2, 1)
        return post, self.spread * np.sqrt((response**2).sum(axis=2)) * unit[:, None]

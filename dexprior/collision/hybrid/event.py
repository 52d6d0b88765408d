"""One instant at which watched pairs collide, in one world: who is asked, and what the world makes of the answers.

    sweep:  every watched pair that approaches is asked about its own impact, all at the same velocity v
            pairs that share bodies are answered together: each impulse p_k is scaled by s_k >= 0 such that each
            pair's normal velocity becomes what the model said for it alone (it may be more where another pair
            pushes it apart; then s_k = 0)
            v <- v + sum_k s_k dv_k, shortened where that would add kinetic energy
    repeat: until no pair approaches as fast as an impact, so that a blow runs along a row of bodies
    stop:   what still approaches more slowly is brought to rest without rebound

The law of the first step is Newton's for several contacts at once (Moreau 1988, "Unilateral contact and dry friction
in finite freedom dynamics"), with the model's answer in place of a coefficient. No order of pairs enters, so that
mirrored worlds give mirrored answers.

`Event.resolve` is a generator: it hands out questions and takes replies, so that the questions of many worlds can be
put to the model at once (`settle`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from dexprior.collision.hybrid.contacts import Frame, Patch
from dexprior.collision.hybrid.holding import Holding
from dexprior.collision.hybrid.lcp import solve_lcp
from dexprior.config import Ge, Gt, config
from dexprior.types.collision import CollisionModel, ContactGeometry

__all__ = ["COUNTS", "Answer", "Event", "HybridConfig", "RangedCollisionModel", "settle"]

COUNTS = (
    "impacts",
    "energy",
    "not_finite",
    "out_of_range",
    "penetrating",
    "blocked",
    "unresolved",
    "handed_back",
)
"""What is counted; see `HybridStepper`."""

_ENERGY_TOLERANCE = 1e-9  # relative gain of kinetic energy that is still rounding
_REVISIONS = 4  # times that a pair is asked again because its impulse presses other contacts than was assumed
_BLOCKED = 1e-9  # share of the free mobility below which what holds leaves the pair none
_RIDGE = 1e-9  # relative; shares the load of redundant points
_DRAWS = 16  # of a sample, before the mean is taken instead


@config
class HybridConfig:
    """When the collision model is asked, and for how long MuJoCo's answer stays off."""

    min_approach: Annotated[float, Gt(0)] = 0.1
    """Approach speed that makes a first touch an impact [m/s]; slower ones are MuJoCo's."""
    closing: Annotated[float, Ge(0)] = 1e-3
    """Approach speed after the impact that gives the pair back to MuJoCo [m/s]."""
    max_steps: Annotated[int, Ge(1)] = 20
    """Steps after which a pair that still touches is given back to MuJoCo."""
    max_sweeps: Annotated[int, Ge(1)] = 50
    """Times that the pairs of one event are asked before what still approaches is stopped without rebound."""
    resting: Literal["strikes", "holds"] = "strikes"
    """What a watched pair that rests in touch does when one of its bodies is struck: it passes the blow on
    (Newton's cradle), or holds like an unwatched contact (an object on a table that is watched, too)."""
    sensing_time: Annotated[float, Gt(0)] | None = None
    """How long force readings show an impact, each its mean over that time [s]; None is the time step, or where
    readings are taken at a control rate, the control period, so that none is missed and their sum stays the impulse."""

    def read_every(self, period: float) -> HybridConfig:
        """The same where sensors are read once in a period [s], unless it says how long they show impacts."""
        return self if self.sensing_time is not None else replace(self, sensing_time=period)


@runtime_checkable
class RangedCollisionModel(CollisionModel, Protocol):
    """A collision model that knows where it was trained."""

    def inside(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> Bool[np.ndarray, " batch"]:
        """Whether each impact lies in the range of its training."""
        ...


@dataclass(frozen=True)
class Question:
    """One impact, as the model sees it."""

    pre: Float[np.ndarray, " dof"]
    jacobian: Float[np.ndarray, "contact dof"]
    inverse_inertia: Float[np.ndarray, "dof dof"]
    phi: Float[np.ndarray, " parameter"]


@dataclass(frozen=True)
class Reply:
    """What the model said; NaN where it was not asked because the impact is outside its range."""

    post: Float[np.ndarray, " dof"]
    std: Float[np.ndarray, " dof"]
    inside: bool


@dataclass(frozen=True)
class Answer:
    """What became of one question; velocities are MuJoCo's `qvel`."""

    pair: int
    time: float
    """[s]"""
    sweep: int
    approach: Float[np.ndarray, " contact"]
    """Contact velocity before [m/s]."""
    pre: Float[np.ndarray, " dof"]
    post: Float[np.ndarray, " dof"]
    """Velocities after this pair alone: the model's mean, or the draw, and the friction of what holds."""
    std: Float[np.ndarray, " dof"]
    """Standard deviation that the model gives to `post`."""


Conversation = Generator[list[Question], list[Reply], None]


class Event:
    """The colliding pairs of one world at one instant.

    Args:
        velocity: qvel before.
        time: of the world [s].
        patches: the touching points of each pair that may be asked.
        holding: what holds meanwhile.
        momentum: M v.
        phi: contact parameters of all watched pairs.
        rows: 2 or 3, what the model reads.
        config: thresholds.
        noise: a generator for each (pair, sweep) to draw answers with; None takes the mean.
    """

    def __init__(
        self,
        *,
        velocity: Float[np.ndarray, " dof"],
        time: float,
        patches: Mapping[int, Patch],
        holding: Holding,
        momentum: Callable[[Float[np.ndarray, " dof"]], Float[np.ndarray, " dof"]],
        phi: Float[np.ndarray, "pair parameter"],
        rows: int,
        config: HybridConfig,
        noise: Callable[[int, int], np.random.Generator] | None = None,
    ) -> None:
        self.velocity, self.counts, self.answers = velocity.copy(), Counter[str](), list[Answer]()
        self.answered: set[int] = set()
        self.refused: set[int] = set()
        self._time, self._patches, self._holding, self._momentum = time, patches, holding, momentum
        self._phi, self._rows, self._config, self._noise = phi, rows, config, noise

    @property
    def taken(self) -> set[int]:
        """Pairs whose impact the model has answered, so that MuJoCo must not."""
        return self.answered - self.refused

    def resolve(self) -> Conversation:
        """Ask until nothing approaches; `velocity` is then the one after the impacts."""
        for sweep in range(self._config.max_sweeps):
            frames = self._approaching()
            if not frames:
                break
            changes = yield from self._ask(frames, sweep)
            if changes:
                self.velocity = self.velocity + self._together(frames, changes)
                self.answered |= changes.keys()
        else:
            self.counts["unresolved"] += len(self._approaching())
        self._stop()
        self.counts["impacts"] += len(self.answered)

    def _approaching(self) -> dict[int, Frame]:
        frames = {
            k: patch.frame(self.velocity, rows=self._rows, inverse=self._holding.inverse)
            for k, patch in self._patches.items()
            if k not in self.refused
        }
        return {k: frame for k, frame in frames.items() if frame.velocity[0] < -self._config.min_approach}

    def _ask(
        self, frames: Mapping[int, Frame], sweep: int
    ) -> Generator[list[Question], list[Reply], dict[int, np.ndarray]]:
        """Change of velocity by each pair alone; those that a guard objects to are missing.

        Which contacts hold depends on the impulse, and the impulse on which hold: the first guess is a normal impulse,
        and a pair whose answer presses others is asked again.
        """
        pressed = {k: self._holding.pressed(frame.jacobian[0]) for k, frame in frames.items()}
        changes: dict[int, np.ndarray] = {}
        pending = list(frames)
        for revision in range(_REVISIONS):
            asked = [(k, self._question(k, frames[k], pressed[k])) for k in pending]
            questions = {k: question for k, question in asked if question is not None}
            pending = []
            if not questions:
                break
            replies = yield list(questions.values())
            for (k, question), reply in zip(questions.items(), replies):
                if not reply.inside or not np.isfinite(reply.post).all():
                    self._refuse(k, "not_finite" if reply.inside else "out_of_range")
                    continue
                jacobian, change = question.jacobian, reply.post - question.pre
                response = question.inverse_inertia @ jacobian.T
                impulse = jacobian.T @ np.linalg.lstsq(jacobian @ response, jacobian @ change, rcond=None)[0]
                answer = self._holding.pressed(impulse)
                if ((answer > 0) != (pressed[k] > 0)).any():
                    if revision + 1 < _REVISIONS:
                        pressed[k] = answer
                        pending.append(k)
                        continue
                    change = self._holding.response(impulse, answer)
                if objection := self._objection(change, jacobian[0], answer):
                    self._refuse(k, objection)
                    continue
                if self._noise is not None:
                    change = self._drawn(k, sweep, change, response, reply.std, jacobian[0], answer)
                change = change + self._holding.rubbed(question.pre + change, answer)
                changes[k] = change
                self.answers.append(
                    Answer(k, self._time, sweep, frames[k].velocity, question.pre, question.pre + change, reply.std)
                )
        return {k: changes[k] for k in frames if k in changes}

    def _question(self, pair: int, frame: Frame, pressed: np.ndarray) -> Question | None:
        """None, and counted, where what holds leaves the pair no mobility."""
        inverse, normal = self._holding.projected(pressed > 0), frame.jacobian[0]
        if normal @ inverse @ normal <= _BLOCKED * (normal @ self._holding.free @ normal):
            self._refuse(pair, "blocked")
            return None
        return Question(self.velocity, frame.jacobian, inverse, self._phi[pair])

    def _refuse(self, pair: int, why: str) -> None:
        self.counts[why] += 1
        self.refused.add(pair)

    def _objection(self, change: np.ndarray, normal: np.ndarray, pressed: np.ndarray) -> str | None:
        before = self._energy(self.velocity)
        # a held contact that was separating slightly is stopped by its own impulse, not by the model's
        own = float(pressed @ np.maximum(self._holding.rows @ self.velocity, 0.0))
        if self._energy(self.velocity + change) > before * (1.0 + _ENERGY_TOLERANCE) + own:
            return "energy"
        if normal @ (self.velocity + change) < -self._config.closing:
            return "penetrating"
        return None

    def _drawn(
        self,
        pair: int,
        sweep: int,
        change: np.ndarray,
        response: np.ndarray,
        std: np.ndarray,
        normal: np.ndarray,
        pressed: np.ndarray,
    ) -> np.ndarray:
        """A draw around the mean, of the contact impulse: what holds still holds, and the guards still agree.

        The impulse's variances are those that explain the velocity's, std**2 = (P J^T)**2 var; draws that a guard
        objects to are repeated, so the distribution is cut at what is possible.
        """
        assert self._noise is not None
        variance = np.linalg.lstsq(response**2, std**2, rcond=None)[0]
        sigma, rng = np.sqrt(np.maximum(variance, 0.0)), self._noise(pair, sweep)
        for _ in range(_DRAWS):
            drawn = change + response @ (sigma * rng.standard_normal(len(sigma)))
            if self._objection(drawn, normal, pressed) is None:
                return drawn
        return change

    def _together(self, frames: Mapping[int, Frame], changes: Mapping[int, np.ndarray]) -> np.ndarray:
        """The joint change of velocity; see the module's docstring."""
        alone = np.stack(list(changes.values()))
        if len(alone) == 1:
            return alone[0]
        effect = np.stack([frames[k].jacobian[0] for k in changes]) @ alone.T  # of impact j on the normal of pair k
        scale = solve_lcp(effect, -np.diag(effect), ridge=_RIDGE)
        if scale is None:  # strong friction can make the joint law ambiguous: the mean of the lone answers is passive
            scale = np.full(len(alone), 1.0 / len(alone))
        change = scale @ alone
        momentum = self._momentum(change)
        linear, quadratic = float(self.velocity @ momentum), float(change @ momentum)
        if linear + 0.5 * quadratic > 0.0:
            change = change * np.clip(-2.0 * linear / quadratic, 0.0, 1.0)
        return change

    def _stop(self) -> None:
        """Bring the points of answered pairs that still approach to rest, by the least change of velocity."""
        patches = [self._patches[k] for k in sorted(self.taken)]
        if not patches:
            return
        normals = np.concatenate([patch.normal_rows for patch in patches])
        approach = normals @ self.velocity
        if (approach >= -self._config.closing).all():
            return
        rows = np.concatenate([normals, self._holding.rows])
        response = self._holding.inverse @ rows.T
        offset = np.concatenate([approach, np.zeros(len(self._holding.rows))])
        impulse = solve_lcp(rows @ response, offset, ridge=_RIDGE)
        assert impulse is not None  # symmetric and, with the ridge, positive definite
        self.velocity = self.velocity + response @ impulse

    def _energy(self, velocity: np.ndarray) -> float:
        return 0.5 * float(velocity @ self._momentum(velocity))


def settle(events: Sequence[Event], collision_model: CollisionModel) -> None:
    """Resolve events in lockstep: one call of the model a round, for all of them."""
    waiting: list[tuple[Conversation, list[Question]]] = []
    for event in events:
        _go_on(event.resolve(), None, waiting)
    while waiting:
        replies = iter(_replies(collision_model, [question for _, asked in waiting for question in asked]))
        previous, waiting = waiting, []
        for conversation, asked in previous:
            _go_on(conversation, [next(replies) for _ in asked], waiting)


def _go_on(
    conversation: Conversation, replies: list[Reply] | None, waiting: list[tuple[Conversation, list[Question]]]
) -> None:
    try:
        asked = next(conversation) if replies is None else conversation.send(replies)
    except StopIteration:
        return
    waiting.append((conversation, asked))


def _replies(model: CollisionModel, questions: Sequence[Question]) -> list[Reply]:
    pre, jacobian, inverse, phi = (
        np.stack([getattr(question, name) for question in questions])
        for name in ("pre", "jacobian", "inverse_inertia", "phi")
    )
    geometry = ContactGeometry(jacobian=jacobian, inverse_inertia=inverse)
    inside = np.ones(len(pre), dtype=bool)
    if isinstance(model, RangedCollisionModel):
        inside = np.asarray(model.inside(pre, geometry, phi))
    post, std = np.full_like(pre, np.nan), np.full_like(pre, np.nan)
    if inside.all():
        post, std = model.predict(pre, geometry, phi)
    elif inside.any():
        known = ContactGeometry(jacobian=jacobian[inside], inverse_inertia=inverse[inside])
        post[inside], std[inside] = model.predict(pre[inside], known, phi[inside])
    return [Reply(*row) for row in zip(post, std, inside.tolist())]

"""Events as values, and the gaps that switches belong to."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.config import to_plain, validate
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.families import (
    GAPS,
    Event,
    EventFamily,
    EventPrior,
    Hysteresis,
    Injectors,
    Parameter,
    ParameterFamily,
    Phenomena,
    actuation,
    gap_of,
    gap_of_event,
    servos,
    switches_by_gap,
)

_PRIORS = (
    EventPrior(kind="set", target="friction", probability=0.5, time=(1.0, 2.0), low=(0.1,), high=(0.3,)),
    EventPrior(kind="push", target="cube", time=(0.0, 1.0), low=(-1, 0, 0), high=(1, 0, 0), duration=(0.1, 0.2)),
)


def test_draws_stay_within_their_bounds_and_are_the_seeds():
    family = EventFamily("e", _PRIORS)
    worlds = family.sample(np.random.default_rng(0), 400)
    assert worlds == family.sample(np.random.default_rng(0), 400)
    drops = [event for row in worlds for event in row if event.kind == "set"]
    assert 0.4 < len(drops) / 400 < 0.6
    assert all(1.0 <= e.time <= 2.0 and 0.1 <= e.value[0] <= 0.3 and e.duration == 0 for e in drops)
    pushes = [event for row in worlds for event in row if event.kind == "push"]
    assert len(pushes) == 400
    assert np.std([e.value[0] for e in pushes]) == pytest.approx(1 / np.sqrt(3), rel=0.1)
    rare = EventFamily("e", (EventPrior(**{**to_plain(_PRIORS[0]), "probability": 0.0}), _PRIORS[1]))
    assert [row[-1] for row in rare.sample(np.random.default_rng(0), 400)] == [row[-1] for row in worlds]


def test_an_event_is_plain_data():
    event = Event(kind="push", time=0.5, target="cube", value=(0.1, 0.0, 0.0))
    assert validate(Event, to_plain(event)) == event
    with pytest.raises(ConfigError, match="kick"):
        validate(Event, {"kind": "kick", "time": 0.0, "target": "cube"})


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"kind": "push", "target": "cube", "value": (1.0,)}, BadInput, "1 numbers, expected 3"),
        ({"kind": "set", "target": "friction"}, BadInput, "0 numbers, expected 1"),
        ({"kind": "dropout", "target": "smell"}, UnknownName, "wrench"),
    ],
)
def test_bad_events_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        Event(time=0.0, **values)


def test_bad_bounds_are_refused():
    with pytest.raises(BadInput, match="time from 2"):
        EventPrior(kind="dropout", target="wrench", time=(2.0, 1.0))
    with pytest.raises(BadInput, match="values from"):
        EventPrior(kind="set", target="friction", time=(0.0, 1.0), low=(0.3,), high=(0.1,))


def test_every_switch_names_its_gap():
    friction = Parameter(name="friction", unit="1", low=0, high=1, target="geom/cube/friction/0")
    mass = Parameter(name="mass", unit="kg", low=0, high=1, target="body/cube/mass")
    odd = Parameter(name="odd", unit="1", low=0, high=1, target="world/-/odd")
    assert [gap_of(p) for p in (friction, mass, *actuation())] == ["contact", "object", "sensor", "sensor"]
    with pytest.raises(BadInput, match="no gap is known for 'world/-/odd'"):
        gap_of(odd)
    family = ParameterFamily("f", (friction, mass))
    events = (
        Event(kind="scale", time=0, target="mass", value=(2,)),
        Event(kind="push", time=0, target="cube", value=(0, 0, 0)),
        Event(kind="dropout", time=0, target="touch"),
    )
    assert [gap_of_event(e, family) for e in events] == ["object", "environment", "sensor"]
    assert set(GAPS) >= {"contact", "visual", "sensor", "object", "environment", "human"}
    with pytest.raises(UnknownName, match="friction"):
        gap_of_event(Event(kind="set", time=0, target="colour", value=(1,)), family)


def test_what_differs_between_two_worlds_is_sorted_by_gap():
    friction = Parameter(name="friction", unit="1", low=0, high=1, target="geom/cube/friction/0")
    here, there = ParameterFamily("here", (friction,)), ParameterFamily("there", (friction, *actuation(), *servos()))
    found = switches_by_gap(
        family=there,
        reference=here,
        events=((Event(kind="set", time=0, target="friction", value=(0.1,)),), ()),
        phenomena=Phenomena(hysteresis=Hysteresis()),
        injectors=Injectors.of({"light": 0.5, "hesitation": 0.2}),
    )
    assert found == {
        "contact": ("hysteresis", "set:friction"),
        "visual": ("light",),
        "sensor": ("actuator_delay", "backlash", "servo_damping", "servo_stiffness"),
        "human": ("hesitation",),
    }
    assert switches_by_gap(family=here, reference=here) == {}

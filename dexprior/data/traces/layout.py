"""How a trace lies in an MCAP file (https://mcap.dev/spec), so that any MCAP tool opens it.

Metadata record `dexprior.trace` at the start (and once more at the end, where more is known then):

    schema      dexprior.mcap/1
    panel_hash  of the `Trace`
    info        JSON of the `Trace`'s info
    channels    JSON {name: {unit, frame, kind, width}}: every channel that was declared, also one without a sample
    flush_s     the longest that samples wait for the disk [s]

One MCAP channel a `Channel`: topic `/NAME`, message encoding `json`, schema `dexprior.sample` (JSON schema), metadata
unit, frame and kind. A message is a sample:

    {"t": 12.5, "t_host": 1012.7, "value": [0.1, -0.2, 3.0]}

The seconds in the message are exact (shortest decimal form of a double). The record's own nanoseconds are for tools:
`log_time` is `t_host`, `publish_time` is `t`, both 0 where they would be negative, which MCAP has no number for,
and 9e9 s at most.
Events are the MCAP channel `/events` with schema `dexprior.event`:

    {"t": 12.5, "t_host": 1012.7, "name": "contact"}
"""

from __future__ import annotations

import json

import numpy as np
from jaxtyping import Float

__all__ = ["EVENTS", "EVENT_SCHEMA", "METADATA", "SAMPLE_SCHEMA", "SCHEMA", "channel_of", "nanoseconds", "topic_of"]

SCHEMA = "dexprior.mcap/1"
METADATA = "dexprior.trace"
EVENTS = "events"
"""Name of the channel that holds `Trace.info["events"]`; no `Channel` may have it."""

_LATEST = 9e9  # [s]
_CLOCKS = {
    "t": {"type": "number", "description": "seconds on the source's clock"},
    "t_host": {"type": "number", "description": "monotonic seconds on the recording host"},
}


def _object(properties: dict[str, object]) -> bytes:
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}).encode()


SAMPLE_SCHEMA = ("dexprior.sample", _object({**_CLOCKS, "value": {"type": "array", "items": {"type": "number"}}}))
"""Name and JSON schema of a sample."""
EVENT_SCHEMA = ("dexprior.event", _object({**_CLOCKS, "name": {"type": "string"}}))
"""Name and JSON schema of an event."""


def topic_of(name: str) -> str:
    """Topic of a channel."""
    return f"/{name}"


def channel_of(topic: str) -> str:
    """Channel of a topic."""
    return topic.removeprefix("/")


def nanoseconds(seconds: Float[np.ndarray, " time"]) -> list[int]:
    """What MCAP's own clocks can hold of times: from 0 to 285 years."""
    return np.rint(np.clip(seconds, 0.0, _LATEST) * 1e9).astype(np.int64).tolist()

"""A striking table in a process of its own: `python -m dexprior.envs.reality.pushing.server --setting 0`.

Prints {"host": ..., "port": ...} as one line on stdout and speaks the reality server's protocol, with one request of
its own: `strike`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from dexprior.config import to_plain, validate
from dexprior.envs import wire
from dexprior.envs.processes import announce, exit_with_parent
from dexprior.envs.reality.messages import PROTOCOL, VERSION
from dexprior.envs.reality.pushing.recording import CaptureConfig
from dexprior.envs.reality.pushing.table import SETTINGS, BulletTable
from dexprior.envs.serving import Service, serve
from dexprior.errors import BadInput, DexpriorError
from dexprior.reading import read_json_object
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = ["ServedTable", "main"]

_LARGEST = 100.0  # [rad, m/s, m] of anything in a strike
_GEOMETRY = ("shape", "size", "facets", "height", "mass", "rod_radius", "rod_mass")


@dataclass
class ServedTable(Service):
    """A table, and what its server tells about it; it has no state between strikes, so that clients take turns."""

    protocol, version, name = PROTOCOL, VERSION, "table server"

    table: BulletTable

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            BadInput: an unknown request, or a strike that cannot be carried out.
        """
        kind = message["type"]
        if kind == "describe":
            world = self.table.world
            return {
                "type": "description",
                "task": "pushing",
                "world": {name: getattr(world, name) for name in _GEOMETRY},
                "capture": to_plain(self.table.capture),
                "truth": self.table.truth,
                "engine": f"pybullet {metadata.version('pybullet')}",
            }
        if kind != "strike":
            raise BadInput(f"unknown request {kind!r:.80}. Known: describe, strike, close")
        fields = ("alpha", "speed", "beta")
        strike = Strikes(**{name: wire.array_from(message, name, limit=_LARGEST)[None] for name in fields})
        pose = wire.array_from(message, "pose", 3, limit=_LARGEST)[None]
        seed, number = (wire.whole_from(message, name, 0, 2**63 - 1) for name in ("seed", "number"))
        found = self.table.record(pose, strike, seed=seed, first=number)
        return {
            "type": "recording",
            "track": found.track[0],
            "touch": found.touch[0],
            "final_pose": found.final_pose[0],
            "velocity": None if found.velocity is None else found.velocity[0],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the table that the command line describes, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.reality.pushing.server", description=__doc__)
    parser.add_argument("--host", default=wire.LOCALHOST, help="address to bind; there is no authentication")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--world", type=Path, help="JSON file of shape, sizes and masses")
    parser.add_argument("--setting", type=int, default=0, help=f"contact parameters, 0 to {len(SETTINGS) - 1}")
    parser.add_argument("--seed", type=int, default=0, help="of the motion capture's noise")
    parser.add_argument("--no-noise", action="store_true", help="measure exactly")
    parser.add_argument("--truth", action="store_true", help="tell the velocity at separation, for scoring")
    parser.add_argument("--with-parent", action="store_true", help="end when stdin closes")
    chosen = parser.parse_args(arguments)
    if chosen.with_parent:
        exit_with_parent()
    try:
        if not 0 <= chosen.setting < len(SETTINGS):
            raise BadInput(f"--setting {chosen.setting}: there are 0 to {len(SETTINGS) - 1}")
        sizes = {} if chosen.world is None else read_json_object(chosen.world)
        world = validate(PushingConfig, sizes, where=str(chosen.world))
        capture = CaptureConfig()
        if chosen.no_noise:
            capture = replace(capture, position_noise=0.0, angle_noise=0.0)
        table = BulletTable(world, SETTINGS[chosen.setting], capture=capture, truth=chosen.truth, seed=chosen.seed)
        listener = wire.listen(chosen.host, chosen.port)
    except DexpriorError as error:
        parser.exit(2, f"table server: {error}\n")
    announce(listener)
    serve(ServedTable(table), listener)


if __name__ == "__main__":
    main()

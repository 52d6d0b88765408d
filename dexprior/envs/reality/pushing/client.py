"""The client of a table server: strikes go in, recordings come out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import write_json
from dexprior.config import to_plain, validate
from dexprior.envs import wire
from dexprior.envs.processes import ServerProcess
from dexprior.envs.reality.messages import PROTOCOL, VERSION
from dexprior.envs.reality.pushing.recording import CaptureConfig, Recordings
from dexprior.envs.session import Session
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig, Strikes, rod_at_touch

__all__ = ["RealTable", "start_table"]

_SERVER = "dexprior.envs.reality.pushing.server"


def start_table(
    world: PushingConfig,
    *,
    setting: int,
    seed: int = 0,
    noise: bool = True,
    truth: bool = False,
    start_timeout: float = 60.0,
) -> ServerProcess:
    """Run a table server on an ephemeral local port; use as a context manager, `address` says where it is.

    Args:
        world: shapes, sizes and masses.
        setting: number of its hidden contact parameters.
        seed: of the motion capture's noise.
        noise: False measures exactly.
        truth: whether it tells the velocities at separation, for scoring.
        start_timeout: seconds to wait until it listens.

    Raises:
        ConnectionLost: it did not start; its own words are on stderr.
    """
    arguments = ["--with-parent", "--port", "0", "--setting", str(setting), "--seed", str(seed)]
    arguments += ([] if noise else ["--no-noise"]) + (["--truth"] if truth else [])
    with tempfile.TemporaryDirectory(prefix="dexprior-") as folder:  # read by the server before it announces itself
        file = write_json(Path(folder) / "world.json", to_plain(world))
        return ServerProcess(_SERVER, [*arguments, "--world", str(file)], start_timeout=start_timeout)


class RealTable:
    """Strikes objects on a table behind a socket; a simulator of strikes like any other, and a recorder.

    Args:
        address: of a running server; or the server itself, which is then closed with this client.
        timeout: seconds within which a strike must be answered.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there.
    """

    def __init__(self, address: tuple[str, int] | ServerProcess, *, timeout: float = 30.0) -> None:
        self._session = Session(address, (PROTOCOL, VERSION), timeout=timeout, peer="table server")
        description, where = self._session.description, self._session.address
        if description.get("task") != "pushing":
            engine = f"{description.get('engine')}"[:80]
            raise BadInput(f"the server at {where[0]}:{where[1]} serves another task: {engine}")
        self.world = validate(PushingConfig, self._session.told("world", dict), where="table server: world")
        self.capture = validate(CaptureConfig, self._session.told("capture", dict), where="table server: capture")
        self.engine, self.truth = self._session.told("engine", str), self._session.told("truth", bool)

    def __call__(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Where the struck objects come to rest, as measured."""
        return self.record(pose, strikes).final_pose

    def record(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes, *, seed: int = 0) -> Recordings:
        """Place objects, strike them one after the other, and record each.

        Args:
            pose: [x y yaw] of each.
            strikes: one each.
            seed: of the noise, with the server's own and the strike's number.

        Raises:
            BadInput: see `rod_at_touch`.
            ConnectionLost: the server is gone or too slow.
        """
        pose = np.asarray(pose, dtype=np.float64)
        rod_at_touch(self.world, pose, strikes)
        answers = [self._strike(pose[k], strikes, k, seed) for k in range(len(strikes))]
        track = np.full((len(answers), max((len(a["track"]) for a in answers), default=0), 3), np.nan)
        for row, answer in zip(track, answers):
            row[: len(answer["track"])] = answer["track"]
        return Recordings(
            strikes=strikes,
            pose=pose,
            track=track,
            t=np.arange(track.shape[1]) / self.capture.rate,
            touch=np.array([a["touch"] for a in answers]).reshape(-1, 2),
            final_pose=np.array([a["final_pose"] for a in answers]).reshape(-1, 3),
            velocity=np.array([a["velocity"] for a in answers]).reshape(-1, 3) if self.truth else None,
        )

    def close(self) -> None:
        """Say goodbye, and end a server that was handed over; again does nothing."""
        self._session.close()

    def __enter__(self) -> RealTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _strike(self, pose: np.ndarray, strikes: Strikes, k: int, seed: int) -> dict[str, Any]:
        answer = self._session.request(
            {
                "type": "strike",
                "pose": pose,
                "alpha": strikes.alpha[k],
                "speed": strikes.speed[k],
                "beta": strikes.beta[k],
                "seed": seed,
                "number": k,
            }
        )
        found = {
            "track": wire.array_from(answer, "track", "frame", 3),
            "touch": wire.array_from(answer, "touch", 2),
            "final_pose": wire.array_from(answer, "final_pose", 3),
        }
        return found | ({"velocity": wire.array_from(answer, "velocity", 3)} if self.truth else {})

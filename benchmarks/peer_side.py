"""The other side of `peers.py`: one of their environments and a bare loop of its model, in a process of its own.

Runs in the peers' interpreter. The first argument names the environment, the second a file that its MJCF is written to.
Prints a JSON line about the model, and then one of rates for every line on its standard input.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

STEPS = 50  # control steps of a side in a round


class Robosuite:
    """Lift with the Panda, states only, its default controller."""

    def __init__(self) -> None:
        import robosuite

        self.env = robosuite.make(
            "Lift",
            robots="Panda",
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            horizon=10**9,
        )
        self.env.reset()
        self.model, self.data = self.env.sim.model._model, self.env.sim.data._data
        self.frame_skip = round(self.env.control_timestep / self.env.model_timestep)
        self.size = self.env.action_dim

    def mjcf(self, file: Path) -> str:
        """Written anew: robosuite puts its models together in Python."""
        file.write_text(self.env.sim.model.get_xml())
        return str(file)


class GymnasiumRobotics:
    """One of its environments by name."""

    def __init__(self, name: str) -> None:
        import gymnasium
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
        self.env = gymnasium.make(name).unwrapped
        self.env.reset(seed=0)
        self.model, self.data = self.env.model, self.env.data
        self.frame_skip = self.env.n_substeps
        self.size = self.env.action_space.shape[0]

    def mjcf(self, file: Path) -> str:
        """Where it lies."""
        return str(self.env.fullpath)


def main(name: str, file: str) -> None:
    """Tell about the model, then answer every line."""
    peer: Any = Robosuite() if name == "Lift" else GymnasiumRobotics(name)
    rng = np.random.default_rng(0)
    for _ in range(20):
        peer.env.step(rng.uniform(-1, 1, peer.size))
    print(
        json.dumps(
            {
                "mjcf": peer.mjcf(Path(file)), "timestep": peer.model.opt.timestep, "frame_skip": peer.frame_skip,
                "mujoco": mujoco.__version__, "qpos": peer.data.qpos.tolist(),
                "mocap": np.hstack([peer.data.mocap_pos, peer.data.mocap_quat]).tolist(),
            }
        ),
        flush=True,
    )  # fmt: skip
    for _ in sys.stdin:
        print(json.dumps(_round(peer, rng)), flush=True)


def _round(peer: Any, rng: np.random.Generator) -> dict[str, float]:
    """Rates of `env.step` under random actions, and of `mj_step` from the same state under the controls they gave."""
    whole = mujoco.mjtState.mjSTATE_INTEGRATION
    start = np.empty(mujoco.mj_stateSize(peer.model, whole))
    mujoco.mj_getState(peer.model, peer.data, start, whole)
    bare, given = mujoco.MjData(peer.model), []
    actions, spent = rng.uniform(-1, 1, (STEPS, peer.size)), 0.0
    for action in actions:
        begin = time.process_time()
        peer.env.step(action)
        spent += time.process_time() - begin
        given.append((peer.data.ctrl.copy(), peer.data.mocap_pos.copy(), peer.data.mocap_quat.copy()))
    mujoco.mj_setState(peer.model, bare, start, whole)
    free = 0.0
    for ctrl, position, quat in given:
        bare.ctrl[:], bare.mocap_pos[:], bare.mocap_quat[:] = ctrl, position, quat
        begin = time.process_time()
        mujoco.mj_step(peer.model, bare, nstep=peer.frame_skip)
        free += time.process_time() - begin
    return {"env": STEPS / spent, "bare": STEPS / free}


if __name__ == "__main__":
    main(*sys.argv[1:3])

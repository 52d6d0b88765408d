"""Closed-loop prediction of servo logs that were left out: ours against the published friction model and mujoco.sysid.

Logs are left out by their order (every fourth one); each side sees the same others. The peer in MuJoCo is a pendulum
with dry and viscous joint friction and a position actuator whose force saturates; gain, limit, both frictions, armature
and offset are fitted by `mujoco.sysid` (its packages: pip install 'mujoco[sysid]'). Prints JSON lines {name, value,
unit, peer, peer_value, ratio}.

    python benchmarks/servo.py LOGS PUBLISHED.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np

from dexprior.transfer.servo import ServoFitConfig, ServoLog, fit_servo, read_servo_logs, score_servo

FOLDS = 4
NAMES = ("gain", "limit", "friction", "viscous", "armature", "offset")
START = np.array([0.25, 0.6, 0.015, 0.05, 0.0018, 0.0])  # gain [N m/rad] at kp = 100; limit [N m]
LOW = np.array([0.02, 0.1, 0.0, 0.0, 1e-4, -0.1])
HIGH = np.array([2.0, 2.0, 0.1, 0.3, 6e-3, 0.1])


def main(folder: str, published: str) -> None:
    """Measure and print."""
    logs = read_servo_logs(folder)
    ours, covered, theirs, sysid = [], [], [], []
    for fold in range(FOLDS):
        train = [log for k, log in enumerate(logs) if k % FOLDS != fold]
        test = [log for k, log in enumerate(logs) if k % FOLDS == fold]
        result = score_servo(fit_servo(train, ServoFitConfig(), seed=0), test, published=published)
        ours += [row["error"] for row in result["logs"]]
        covered += [row["coverage"] for row in result["logs"]]
        theirs += [row["published"] for row in result["logs"]]
        values = fit_sysid(train)
        sysid += [float(np.abs(rollout(values, log) - log.position).mean()) for log in test]
    _print("position error on left-out logs", np.mean(ours), "rad", "published M1", np.mean(theirs))
    _print("position error on left-out logs", np.mean(ours), "rad", "mujoco.sysid, Coulomb-viscous", np.mean(sysid))
    _print("coverage of the 90 % band on left-out logs", np.mean(covered), "1", "nominal", 0.9)


def fit_sysid(logs: Sequence[ServoLog]) -> np.ndarray:
    """Parameters by MuJoCo's own system identification."""
    from mujoco import sysid

    parameters = sysid.ParameterDict(
        {n: sysid.Parameter(n, s, low, high) for n, s, low, high in zip(NAMES, START, LOW, HIGH)}
    )

    def residual(x: np.ndarray, _: object) -> tuple[list[np.ndarray], None, None]:
        columns = np.atleast_2d(x.T)  # one candidate, or one a column
        rows = [np.concatenate([rollout(c, log) - log.position for log in logs]) for c in columns]
        return [np.stack(rows, axis=-1) if x.ndim == 2 else rows[0]], None, None

    found, _ = sysid.optimize(
        parameters, residual, optimizer="scipy", verbose=False, x_scale=HIGH - LOW, diff_step=1e-3
    )
    return found.as_vector()


def rollout(values: np.ndarray, log: ServoLog) -> np.ndarray:
    """Positions of the pendulum under a log's commands [rad]."""
    gain, limit, friction, viscous, armature, offset = values
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{log.dt}" integrator="implicitfast"/><worldbody><body>
        <joint name="hinge" axis="0 -1 0" frictionloss="{friction}" damping="{viscous}" armature="{armature}"/>
        <geom type="sphere" size=".001" pos="{log.length * np.sin(offset)} 0 {-log.length * np.cos(offset)}"
        mass="{log.mass}" contype="0" conaffinity="0"/></body></worldbody>
        <actuator><position joint="hinge" kp="{gain * log.kp / 100}" forcerange="{-limit} {limit}"/></actuator>
        </mujoco>"""
    )
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = log.position[0], log.velocity[0]
    out = np.empty(len(log))
    for k in range(len(log)):
        out[k] = data.qpos[0]
        model.opt.disableactuator = 0 if log.enabled[k] else 1
        data.ctrl[0] = log.goal[k]
        mujoco.mj_step(model, data)
    return out


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": float(value), "unit": unit, "peer": peer, "peer_value": float(peer_value)}
    print(json.dumps(row | {"ratio": float(value / peer_value)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])

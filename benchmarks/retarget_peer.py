"""The other side of `retarget.py`: dex-retargeting on streams of joints, in a process of its own.

Runs in the peer's interpreter with `dex-retargeting==0.5.0` and torch. Reads a JSON object {urdf, fingers, runs}
from standard input, each run {name, config, eta, streams}, and writes an `.npz`, whose path is the first argument, with
fingertips (time, finger, 3) in the wrist frame and processor seconds a frame for every run and stream; prints versions
as one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def main(out: Path) -> None:
    """Follow all streams of each run, each from a fresh start."""
    import torch
    from dex_retargeting.retargeting_config import RetargetingConfig

    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    results: dict[str, Any] = {}
    for run in asked["runs"]:
        for name, file in run["streams"].items():
            retargeting = RetargetingConfig.from_dict(dict(run["config"]), {"urdf_path": asked["urdf"]}).build()
            optimizer, robot = retargeting.optimizer, retargeting.optimizer.robot
            if run["eta"] is not None:
                optimizer.projected_dist[: len(asked["fingers"]) - 1] = run["eta"]
            origin, task = optimizer.target_link_human_indices
            links = [robot.get_link_index(f"tip_{finger}") for finger in asked["fingers"]]
            joints = np.load(file)
            tips, spent = np.empty((len(joints), len(links), 3)), np.empty(len(joints))
            for k, frame in enumerate(joints):
                begin = time.process_time()
                q = retargeting.retarget(frame[task] - frame[origin])
                spent[k] = time.process_time() - begin
                robot.compute_forward_kinematics(q)
                tips[k] = [robot.get_link_pose(link)[:3, 3] for link in links]
            results |= {f"{run['name']}/{name}/tips": tips, f"{run['name']}/{name}/seconds": spent}
    np.savez(out, **results)
    print(json.dumps({package: version(package) for package in ("dex-retargeting", "nlopt", "pin", "torch")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

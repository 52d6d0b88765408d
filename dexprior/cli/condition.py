"""Write conditions for an object of your own, from its mesh or its cloud.

The contacts are opposite points of the surface, the posture is one of the suite's hand. `dexprior sample
conditions=FILE` takes the file, and `dexprior sample cloud=FILE` with the same settings does both.

dexprior condition cloud=box.stl at=0.45,-0.1 text="put the box on the mark" goal=0.45,0.1
dexprior sample conditions=runs/conditions.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.data.own_objects.settings import OwnObjectConfig

HELP: dict[str, tuple[str, ...]] = {
    "": ("cloud", "text", "at", "goal", "grasp", "units", "side", "seconds", "n", "seed", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config(OwnObjectConfig):
    """Settings of `dexprior condition`."""

    n: Annotated[int, Ge(1)] = 1
    """Conditions, which differ in where the hand starts."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of where the hand starts."""
    out: str = "runs/conditions.safetensors"
    """File of conditions; a picture of the grasp goes beside it."""


def run(config: Config, words: list[str]) -> int:
    """Make the conditions and write them."""
    from PIL import Image

    from dexprior.artifacts import save
    from dexprior.data.own_objects.conditions import own_conditions
    from dexprior.retarget.drawing import draw_grasp
    from dexprior.types import FINGERS

    made = own_conditions(config, n=config.n, seed=config.seed)
    conditions = made.conditions
    path = save(conditions, config.out, producer="condition", seed=config.seed, config=config)
    picture = Path(config.out).with_suffix(".png")
    Image.fromarray(draw_grasp(made.held, made.cloud[:, :3])).save(picture)
    first = conditions[0]
    show(
        {
            "conditions": len(conditions),
            "out": str(path),
            "picture": str(picture),
            "size_m": np.ptp(made.cloud[:, :3], axis=0).round(4).tolist(),
            "touching": [name for name, touches in zip(FINGERS, made.held.touching) if touches],
            "target_at": first.target_at,
            "seconds": first.seconds,
        }
    )
    return 0

"""Names of the environments in Gymnasium's registry; loads nothing else."""

from __future__ import annotations

__all__ = ["ENVIRONMENTS", "register"]

ENVIRONMENTS = {
    "dexprior/Folding-v0": "folding",
    "dexprior/Insertion-v0": "insertion",
    "dexprior/PickPlace-v0": "pick_place",
    "dexprior/Peg-v0": "peg",
    "dexprior/NutBolt-v0": "nut_bolt",
    "dexprior/SoftGrasp-v0": "soft_grasp",
    "dexprior/CubeInHand-v0": "cube_in_hand",
    "dexprior/Handover-v0": "handover",
    "dexprior/Wipe-v0": "wipe",
}
"""Name in the registry -> task."""


def register() -> None:
    """Register every task; called when `dexprior.envs` is imported, and by older Gymnasium through its entry point."""
    from gymnasium.envs.registration import register as add
    from gymnasium.envs.registration import registry

    for name, task in ENVIRONMENTS.items():
        if name not in registry:
            add(
                name,
                entry_point="dexprior.envs.tasks:make_env",
                vector_entry_point="dexprior.envs.tasks:make_vec_env",
                kwargs={"task": task},
            )

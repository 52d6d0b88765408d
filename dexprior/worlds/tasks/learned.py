"""What was learned of a real robot, in a task's family: parameters of files take the place of the task's own.

family = learned_family(make_task("pick_place"), ["runs/round-2/family.json", "runs/arm/family.json"])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Density, Independent, Parameter, ParameterFamily, actuation, joint_of, servos
from dexprior.worlds.tasks.base import Task
from dexprior.worlds.tasks.transmission import driven_by

if TYPE_CHECKING:
    import mujoco

__all__ = ["learned_family"]

_READINGS = ("wrench_noise", "cloud_noise")  # what a simulated robot's readings are blurred by, whatever the task


def learned_family(task: Task, files: Sequence[str | Path]) -> ParameterFamily:
    """A task's training family with the parameters of files, as `dexprior ledger report`, `fit-noise` and `update`
    write them.

    A parameter of a file replaces the one of the same name, of the task or of a file before it; another one is added.
    The joint density of a file comes along.

    Args:
        task: whose worlds have them.
        files: JSON of parameter families, in order; none leaves the task's own.

    Raises:
        BadInput: a file that is no family; a parameter whose target the task does not have, or that another parameter
            has; joint densities of two files.
    """
    family = task.family
    if not files:
        return family
    model = task.layout().spec.compile()
    known = {p.name: p for p in family.parameters}
    driven = [name for rig in task.layout().rigs for name in (*rig.arm_joints, *rig.end_actuators)]
    worldly = {p.target for p in (*family.parameters, *actuation(), *servos())} | {f"world/-/{n}" for n in _READINGS}
    density, source = family.density, task.name
    names = [family.name]
    for path in files:
        learned = ParameterFamily.read(path)
        for p in learned.parameters:
            _require_target(p, model, driven, worldly, path, task)
            owner = next((k.name for k in known.values() if k.target == p.target and k.name != p.name), None)
            if owner is not None:
                raise BadInput(
                    f"{path}: parameter {p.name!r} goes to {p.target!r}, as {owner!r} of {task.name!r} does: give both "
                    "the same name"
                )
            known[p.name] = p
        density = _joined(density, source, learned, path)
        source = str(path) if learned.density.names else source
        names.append(learned.name)
    return ParameterFamily("+".join(names), tuple(known.values()), density)


def _joined(density: Density, source: str, learned: ParameterFamily, path: str | Path) -> Density:
    """The one joint density that is left; parameters that a file replaces leave the density that they were in."""
    replaced = set(density.names) & set(learned.names)
    if not learned.density.names and not replaced:
        return density
    if density.names and replaced < set(density.names):
        raise BadInput(
            f"{path} and {source} both say how parameters hang together, or one replaces a part of what hangs together "
            f"in the other ({', '.join(density.names)}): give one of them"
        )
    return learned.density if learned.density.names else Independent()


def _require_target(
    p: Parameter, model: mujoco.MjModel, driven: list[str], worldly: set[str], path: str | Path, task: Task
) -> None:
    if joint_of(p) is not None:
        try:
            driven_by(model, driven, p)
        except UnknownName as error:
            raise BadInput(
                f"{path}: {error} Write the simulator's joint into its target, world/JOINT/..., or measure again with "
                "arm.joints={LOG'S JOINT: SIMULATOR'S JOINT, ...}"
            ) from None
        return
    if p.target.startswith("world/"):
        if p.target in worldly:
            return
        known = ", ".join(sorted(worldly))
        raise BadInput(
            f"{path}: parameter {p.name!r}: task {task.name!r} has no target {p.target!r}; of that kind: {known}"
        )
    try:
        ParameterFamily("one", (p,)).apply(model, {p.name: p.low})
    except (UnknownName, BadInput) as error:
        raise BadInput(
            f"{path}: parameter {p.name!r}: task {task.name!r} has no target {p.target!r}: {error}"
        ) from None

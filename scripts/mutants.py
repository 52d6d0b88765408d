"""Faults put into the package one at a time, by hand: do the tests notice?

python scripts/mutants.py                # all of them, a line each, then the counts
python scripts/mutants.py recovery tango # those whose names contain one of these

A mutant is one replacement in one file. Its tests must fail with it and pass without it. A fault whose text is no
longer in the file is an error: it has to follow the code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("dexprior", "tests", "configs", "datasets", "docs", "scripts", "benchmarks", "checkpoints", "examples")


class Mutant(NamedTuple):
    """One fault."""

    name: str
    file: str
    """Below `dexprior/`."""
    before: str
    after: str
    tests: str
    """What must fail, below `tests/`, as pytest takes it; words are separated by blanks."""


MUTANTS = (
    # collisions
    Mutant(
        "coupling sign", "collision/surrogate.py", "delassus[:, 0, 1] / a_nn,", "-delassus[:, 0, 1] / a_nn,",
        "collision/test_surrogate.py collision/test_distill.py",
    ),
    Mutant(
        "passivity bound left out", "collision/hybrid/event.py",
        "> before * (1.0 + _ENERGY_TOLERANCE) + own:", "> 1e9 * before + own + 1e9:", "collision/test_hybrid_events.py",
    ),
    Mutant(
        "felt with the wrong sign", "collision/hybrid/stepper.py", "force = impulse / model.opt.timestep",
        "force = -impulse / model.opt.timestep", "collision/test_hybrid_sensors.py",
    ),
    Mutant(
        "felt through friction", "collision/hybrid/impulses.py", "_FRICTION = 1e3", "_FRICTION = 1.0",
        "collision/test_hybrid_sensors.py",
    ),
    Mutant(
        "felt for one step at a control rate", "envs/hybrid/backend.py", ".read_every(task.control_dt)",
        ".read_every(0.001)", "envs/test_hybrid.py",
    ),
    Mutant(
        "spread without phi", "collision/surrogate.py", "std = np.sqrt(std**2 + self._spread_of_phi(contact, phi))",
        "std = np.sqrt(std**2)", "collision/test_surrogate.py collision/test_calibration.py",
    ),
    Mutant(
        "separating contacts answered", "collision/surrogate.py",
        "unit = np.maximum(-approach[:, :1], 0.0) / geometry", "unit = np.abs(-approach[:, :1]) / geometry",
        "collision/test_surrogate.py",
    ),
    Mutant(
        "deflection turned", "collision/clash.py", "np.angle(np.exp(1j * (heading - towards)))",
        "np.angle(np.exp(1j * (towards - heading)))", "collision/test_clash.py",
    ),
    Mutant(
        "identification that does nothing", "collision/clash.py",
        "        self.phi = phi.detach()\n\n    def untrained",
        "        del phi\n\n    def untrained", "collision/test_clash.py",
    ),
    Mutant(
        "relative error by the prediction", "collision/evaluation.py", "np.linalg.norm(impacts.post * scale, axis=1)",
        "np.linalg.norm(predicted * scale, axis=1)", "collision/test_collision_evaluation.py",
    ),
    # divergence and recovery
    Mutant(
        "conformal rank of recovery", "transfer/recovery.py", "(remains.shape[1] - half + 1)))",
        "(remains.shape[1] - half)))", "transfer/test_recovery.py",
    ),
    Mutant(
        "threshold one rank lower", "transfer/recovery.py", "float(np.sort(late)[rank - 1])",
        "float(np.sort(late)[rank - 2])", "transfer/test_recovery.py",
    ),
    Mutant(
        "conformal p without the group itself", "transfer/divergence/detector.py",
        'return (1 + len(known) - np.searchsorted(known, run, side="left")) / (len(known) + 1)',
        'return (len(known) - np.searchsorted(known, run, side="left")) / (len(known) + 1)',
        "transfer/test_divergence.py",
    ),
    Mutant(
        "sign of the lag", "transfer/divergence/detector.py", "running_mean(-((x - centre) * weighted)",
        "running_mean(((x - centre) * weighted)", "transfer/test_divergence.py",
    ),
    Mutant(
        "one group fewer", "transfer/divergence/detector.py", "(1.0 - config.fit)) + 1", "(1.0 - config.fit)) - 2",
        "transfer/test_divergence.py",
    ),
    Mutant(
        "thresholds from the groups of the bands", "transfer/divergence/detector.py",
        "np.sort(band.run(values[name][used:])[:, -1])", "np.sort(band.run(values[name][:used])[:, -1])",
        "transfer/test_divergence.py",
    ),
    # statistics
    Mutant(
        "Tango's interval mirrored", "stats/intervals.py",
        "return _tango_low(only_first, only_second, n, level), -_tango_low(only_second, only_first, n, level)",
        "return _tango_low(only_second, only_first, n, level), -_tango_low(only_first, only_second, n, level)",
        "stats/test_tango.py",
    ),
    Mutant(
        "Wilson without its centre", "stats/intervals.py", "centre = (k + z * z / 2.0) / (n + z * z)",
        "centre = k / n", "stats/test_intervals.py",
    ),
    Mutant(
        "one tail of the bootstrap", "stats/intervals.py",
        "tail = (1.0 - level) / 2.0\n    low, high = np.quantile(means",
        "tail = 1.0 - level\n    low, high = np.quantile(means", "stats/test_intervals.py",
    ),
    Mutant(
        "Holm without running maximum", "stats/correction.py",
        "np.minimum(np.maximum.accumulate(steps, axis=0), 1.0)", "np.minimum(steps, 1.0)", "stats/test_correction.py",
    ),
    Mutant(
        "Holm as Bonferroni", "stats/correction.py", "np.arange(len(p), 0, -1)[:, None]", "len(p)",
        "stats/test_correction.py",
    ),
    Mutant(
        "ranks above", "stats/calibration.py", "below = (draws < truth[:, None]).sum(axis=1)",
        "below = (draws > truth[:, None]).sum(axis=1)", "stats/test_rank_calibration.py",
    ),
    # rotations, time, hands
    Mutant(
        "logarithm beyond pi", "geometry/rotations.py",
        "    q = np.where(q[..., :1] < 0, -q, q)\n    sine", "    sine", "geometry",
    ),
    Mutant(
        "long way of the slerp", "geometry/rotations.py",
        "quat_multiply(a, quat_from_axis_angle(step * np", "quat_multiply(a, quat_from_axis_angle(-step * np",
        "geometry",
    ),
    Mutant(
        "wrap to another side", "geometry/rotations.py", "% period - period / 2", "% period", "geometry",
    ),
    Mutant(
        "third column of Gram-Schmidt", "geometry/rotations.py", "np.stack([x, y, np.cross(x, y)], axis=-1)",
        "np.stack([x, y, np.cross(y, x)], axis=-1)", "geometry",
    ),
    Mutant(
        "no hysteresis", "geometry/timing.py", "np.where(signal[k] < off, False, current)",
        "np.where(signal[k] < on, False, current)", "geometry",
    ),
    Mutant(
        "fusion by variance of the other", "pose/fusion.py", "return va / (va + vb)", "return vb / (va + vb)",
        "pose/test_fusion.py",
    ),
    Mutant(
        "forces without their logarithm", "prior/motion.py", "= np.log1p(force)", "= force",
        "prior/test_motion.py",
    ),
    Mutant(
        "the first pose of a camera for all frames", "prior/conditioning.py", "rows = start[:, None] +",
        "rows = 0 * start[:, None] +", "prior/test_conditioning.py",
    ),
    Mutant(
        "what is hidden reaches the network", "prior/denoiser.py", "condition = self._told(condition)\n",
        "condition = condition\n", "prior/test_denoiser.py",
    ),
    Mutant(
        "another text encoder than the pinned one", "prior/text.py", "if pinned is not None and checksum != pinned:",
        "if False:", "prior/test_text.py",
    ),
    Mutant(
        "a left hand that is no mirror image", "hands/skeleton.py", "offsets = offsets * _MIRROR",
        "offsets = 1 * offsets", "hands/test_skeleton.py",
    ),
    Mutant(
        "a hand that nobody shows is drawn", "prior/maps.py", "known = shown if known is None else known & shown",
        "known = known", "prior/test_maps.py",
    ),
    Mutant(
        "rays of the first camera alone", "pose/estimator.py", "across.mean(dim=3).sum(dim=1) + _LEVEL",
        "across.mean(dim=3)[:, 0] + _LEVEL", "pose/test_estimator.py",
    ),
    Mutant(
        "ends that are told draw nothing", "pose/estimator.py", "return read + gate[..., [0, 0, 1]] * (known - read)",
        "return read", "pose/test_estimator.py",
    ),
    Mutant(
        "gates open to places that nobody knows", "pose/estimator.py",
        "learns=self.training) * known[where][1][:, None, None]", "learns=self.training)", "pose/test_estimator.py",
    ),
    # retargeting
    Mutant(
        "the thumb alone holds", "retarget/phases.py", "touching[:, 0] & touching[:, 1:3].any(axis=1)",
        "touching[:, 0] | touching[:, 1:3].any(axis=1)", "retarget/test_gripper.py",
    ),
    Mutant(
        "no least force", "retarget/gripper.py", "np.maximum(shared * hand.force[frames, 0],",
        "np.minimum(shared * hand.force[frames, 0],", "retarget/test_gripper.py",
    ),
    Mutant(
        "push from the front", "retarget/gripper.py", "behind[0, :3] -= self._c.behind * way",
        "behind[0, :3] += self._c.behind * way", "retarget/test_gripper.py",
    ),
    # contact laws, measures
    Mutant(
        "ellipse turned", "worlds/contact_laws.py",
        "square / ratio**2 + 1.0 - square", "square + (1.0 - square) / ratio**2",
        "worlds/tasks/test_phenomena.py",
    ),
    Mutant(
        "Stribeck without its valley", "worlds/contact_laws.py", "np.exp(-speed / scale)", "np.exp(speed / scale)",
        "worlds/tasks/test_phenomena.py",
    ),
    Mutant(
        "cable slides the other way", "worlds/contact_laws.py", "np.exp(friction * angle * slide)",
        "np.exp(-friction * angle * slide)", "worlds/tasks/test_phenomena.py",
    ),
    Mutant(
        "slip without the tool's turn", "worlds/measures.py",
        "carried = twist[:, :3] + np.cross(twist[:, 3:], point - tool)", "carried = twist[:, :3]",
        "worlds/test_measures.py",
    ),
    Mutant(
        "slip counted while free", "worlds/measures.py", "slipping = (held & (np.asarray(slip) > SLIP_SPEED))",
        "slipping = (np.asarray(slip) > SLIP_SPEED)", "worlds/test_measures.py",
    ),
    Mutant(
        "reward outside", "worlds/measures.py", "np.exp(np.log(0.1) * outside**2)", "np.exp(np.log(0.01) * outside**2)",
        "worlds/test_measures.py",
    ),
    # behavior and policy
    Mutant(
        "prior without feedback", "behavior/bank.py", "feedforward + self.config.gain * error",
        "feedforward - self.config.gain * error", "behavior",
    ),
    Mutant(
        "density without its width", "behavior/bank.py", "- np.log(self.std).sum() - 0.5 * self.size",
        "- 0.5 * self.size", "behavior",
    ),
    Mutant(
        "advantage without bootstrap", "policy/collecting.py", "discount * goes_on * value[k + 1] - value[k]",
        "- value[k]", "policy/test_ppo.py",
    ),
    Mutant(
        "trace of the advantage", "policy/collecting.py", "discount * trace * goes_on * running",
        "discount * goes_on * running", "policy/test_ppo.py",
    ),
    Mutant(
        "value beyond a true end", "policy/collecting.py", "goes_on * value[k + 1] - value[k]",
        "value[k + 1] - value[k]",
        "policy/test_ppo.py",
    ),
    Mutant(
        "advantage beyond a true end", "policy/collecting.py", "trace * goes_on * running", "trace * running",
        "policy/test_ppo.py",
    ),
    Mutant(
        "transitions after the end", "policy/collecting.py", "self._alive = self._alive & ~ended",
        "self._alive = self._alive & True",
        "policy/test_ppo.py",
    ),
    Mutant(
        "sign of the advantage", "policy/optimising.py", '"clip": -torch.min(ratio', '"clip": torch.min(ratio',
        "policy/test_ppo.py",
    ),
    Mutant(
        "no clip", "policy/optimising.py", "clipped = ratio.clamp(1 - config.clip, 1 + config.clip)", "clipped = ratio",
        "policy/test_ppo.py",
    ),
    Mutant(
        "clip of the worse kind", "policy/optimising.py", "-torch.min(ratio * advantage",
        "-torch.max(ratio * advantage",
        "policy/test_ppo.py",
    ),
    Mutant(
        "commands beyond the box", "worlds/tasks/actions.py", "action = np.clip(action, -1.0, 1.0)",
        "action = action + 0.0", "worlds/tasks/test_actions.py",
    ),
    # the gate
    Mutant(
        "clipped numbers not counted", "envs/hardware/gate.py", "self._saturated += command.saturated",
        "self._saturated += 0", "envs/test_gate.py",
    ),
    Mutant(
        "clipped numbers counted for ever", "envs/hardware/gate.py",
        "self._moving, self._unread, self._saturated = False, 0, 0", "self._moving, self._unread = False, 0",
        "envs/test_gate.py",
    ),
    Mutant(
        "clipped numbers of actions not said", "worlds/tasks/actions.py", "beyond = np.abs(action) > 1.0",
        "beyond = np.abs(action) > 9.0", "worlds/tasks/test_actions.py",
    ),
    Mutant(
        "room beyond a joint's limit", "envs/hardware/joints.py",
        "free = max(room - self._margin, 0.0)", "free = max(room + self._margin, 0.0)", "envs/test_joints.py",
    ),
    Mutant(
        "no floor below the pads", "envs/hardware/limits.py", "low[2] = depth + _CLEARANCE", "low[2] = 0.0",
        "envs/test_limits.py",
    ),
    Mutant(
        "zone no higher than a fixed part", "envs/hardware/limits.py", "above = opposite[2] + hangs + _OVER",
        "above = opposite[2]", "envs/test_limits.py",
    ),
    Mutant(
        "a user's limits after all", "envs/hardware/limits.py", "{**plain, **changes, \"robot\": robot}",
        "{**changes, **plain, \"robot\": robot}", "envs/test_limits.py",
    ),
    # ledger
    Mutant(
        "success gap turned", "transfer/ledger.py",
        "compare_pairs(self.sim.success, self.real.success, names=names",
        "compare_pairs(self.real.success, self.sim.success, names=names",
        "transfer/test_ledger.py transfer/test_rounds.py",
    ),
    Mutant(
        "slip of instances that one world never held", "transfer/ledger.py", "both = self.sim.held & self.real.held",
        "both = self.sim.held | self.real.held", "transfer/test_ledger.py",
    ),
    Mutant(
        "money for gaps that are ruled out", "transfer/collection/planning.py",
        "if probabilities.get(p.gap, 0.0) > 0.0}", "if probabilities.get(p.gap, 0.0) >= 0.0}",
        "transfer/test_collection_plan.py",
    ),
    Mutant(
        "success at any time", "envs/tasks/playing.py", "solved=np.array(task.success(step.truth))",
        "solved=np.ones(worlds.n, dtype=bool)", "envs/tasks/test_playing.py",
    ),
    Mutant(
        "expert's success at any time", "worlds/tasks/experts/base.py", "return worlds.task.success(truth), truth",
        "return np.ones(worlds.n, dtype=bool), truth", "envs/tasks/test_playing.py",
    ),
    # files
    Mutant(
        "keys twice", "reading/json_text.py", "json.loads(text, object_pairs_hook=_unique, **hooks)",
        "json.loads(text, **hooks)", "reading",
    ),
)  # fmt: skip


def run(mutants: Sequence[Mutant]) -> list[tuple[Mutant, str, float]]:
    """Try each in a copy of the checkout: `killed`, `alive`, or `broken` where pytest itself fails.

    Raises:
        SystemExit: a fault that no longer fits the code, or tests that fail without any.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, copy)
        for mutant in mutants:
            if (copy / "dexprior" / mutant.file).read_text().count(mutant.before) != 1:
                sys.exit(f"{mutant.name}: its text is not once in dexprior/{mutant.file}; let it follow the code")
        clean = sorted({words for mutant in mutants for words in mutant.tests.split()})
        if _pytest(copy, clean) != 0:
            sys.exit(f"without any fault, tests fail: {' '.join(clean)}")
        found = []
        for mutant in mutants:
            path, started = copy / "dexprior" / mutant.file, time.monotonic()
            whole = path.read_text()
            path.write_text(whole.replace(mutant.before, mutant.after))
            status = {0: "alive", 1: "killed"}.get(_pytest(copy, mutant.tests.split()), "broken")
            path.write_text(whole)
            found.append((mutant, status, time.monotonic() - started))
            print(f"{status:7} {found[-1][2]:5.0f} s  {mutant.file}: {mutant.name}", flush=True)
    return found


def _pytest(copy: Path, tests: Sequence[str]) -> int:
    words = ["-x", "-q", "-p", "no:cacheprovider", *(f"tests/{word}" for word in tests)]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=copy, env=environment, capture_output=True)
    return done.returncode


def main(words: Sequence[str]) -> int:
    """Run those that are asked for; exit status 1 unless all are killed."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    if not chosen:
        sys.exit(f"no mutant is called so; there are: {', '.join(m.name for m in MUTANTS)}")
    found = run(chosen)
    counts = {status: sum(s == status for _, s, _ in found) for status in ("killed", "alive", "broken")}
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return int(counts["killed"] != len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

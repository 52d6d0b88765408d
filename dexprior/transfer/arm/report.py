"""An arm's ledger as one page: what was measured, how sure that is, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.artifacts import write_json
from dexprior.families import ACTUATOR_DELAY, BACKLASH, Parameter
from dexprior.transfer.arm.alignment import Estimate
from dexprior.transfer.arm.ledger import ArmLedger, JointRecord, MotionRecord
from dexprior.transfer.page import Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["clock_drifts", "next_steps", "write_arm_report"]

_SHOWN = 5.0  # [s] of the enlarged panel
_NOTHING = 1e-9  # [rad] no encoder's noise is as small
_DRIFT = 0.02  # [s] between halves of a log, in at least two joints


def write_arm_report(ledger: ArmLedger, out: str | Path) -> Path:
    """Write `report.html`, `report.json` and `family.json` into a folder; returns the page's path."""
    out = Path(out)
    data = ledger.to_json() | {"next_steps": next_steps(ledger)}
    write_json(out / "report.json", data)
    write_json(out / "family.json", ledger.family().to_json())
    page = Page(
        "Ledger of an arm's logs",
        f"{len(ledger.motions)} motions, {sum(m.log.seconds for m in ledger.motions):.0f} s, {len(ledger.joints)} "
        f"joints; intervals are {ledger.settings.level:.0%}",
    )
    _next(page, ledger, data["next_steps"])
    for motion in ledger.motions:
        _motion(page, motion, ledger)
    _summary(page, ledger)
    _lag(page, ledger)
    _backlash(page, ledger)
    _noise(page, ledger)
    _departures(page, ledger)
    _method(page, ledger)
    return page.write(out / "report.html")


def next_steps(ledger: ArmLedger) -> list[str]:
    """What an engineer should do with these numbers, in sentences."""
    steps = _impossible(ledger)
    parameters = ledger.family().parameters
    delays, widths = ([p for p in parameters if p.target.endswith(f"/{kind}")] for kind in (ACTUATOR_DELAY, BACKLASH))
    pooled = {joint: ledger.pooled(joint) for joint in ledger.joints}
    possible = {r.joint for m in ledger.motions for r in m.joints if not r.impossible}
    lags = {joint: p["lag_s"]["median"] for joint, p in pooled.items() if p["lag_s"] and joint in possible}
    if delays:
        whole = ""
        if lags:
            worst = max(lags, key=lambda joint: lags[joint])
            middle = np.median(list(lags.values()))
            whole = f"; without one, the whole lag of {middle:.3f} s, largest in {worst} ({lags[worst]:.3f} s)"
        steps.append(
            f"Set the command delay{_of(delays)}: {_settings(delays, 3, 's')} (family.json), which is what is left "
            f"beside the dead band{whole}. Where your simulated servo lags by itself, subtract what it lags for the "
            "same command."
        )
    elif not steps:
        steps.append("No joint's lag is identifiable: record motions that turn every joint back and forth.")
    differs = [joint for joint, p in pooled.items() if p["lag_differs"]]
    if differs:
        steps.append(
            f"The lag of {', '.join(differs)} differs between motions by more than its intervals: it is no pure delay. "
            "Give the simulated servo the backlash below, and its own stiffness and damping as parameters."
        )
    if widths:
        steps.append(
            f"Set the dead band{_of(widths)}: {_settings(widths, 4, 'rad')}. It holds gear play and what stiction does "
            "under the servo's gain; to part them, turn the joint by hand with the motor held."
        )
    sags = {
        joint: float(np.median([r.lag.offset for _, r in ledger.cells(joint)])) for joint in ledger.joints
    }  # fmt: skip
    loaded = {j: s for j, s in sags.items() if abs(s) > 5 * (pooled[j]["noise_floor_rad"] or 1e-3) and abs(s) > 0.005}
    if loaded:
        steps.append(
            "Static error: "
            + ", ".join(f"{joint} {sag:+.3f} rad" for joint, sag in loaded.items())
            + ". A gain that is too low for the load, or a zero that is off: model the servo's stiffness under "
            "gravity, or calibrate, before a policy is blamed."
        )
    reasons: dict[str, list[str]] = {}
    for joint in ledger.joints:
        if pooled[joint]["lag_s"] is None:
            reason = ledger.cells(joint)[0][1].lag.reason
            reasons.setdefault("held" if reason.startswith(("not commanded", "commanded by")) else reason, []).append(
                joint
            )
    for reason, joints in reasons.items():
        advice = "Record a motion that moves them, by more than they stick." if reason == "held" else f"{reason}."
        steps.append(f"Not identifiable: {', '.join(joints)}. {advice[0].upper()}{advice[1:]}")
    if all(p["noise_floor_rad"] is None for p in pooled.values()):
        steps.append(
            "No noise floor: nothing is repeated. Record 20 repeats of one motion; until then no residual can be "
            "called a gap of the simulator rather than scatter of the arm."
        )
    else:
        away: dict[str, float] = {}
        for joint in ledger.joints:
            records = [(r, r.floor.scale) for _, r in ledger.cells(joint) if r.floor.scale]
            if records and np.median([r.left / max(scale.high, _NOTHING) for r, scale in records]) > 1.0:
                away[joint] = float(np.median([_ratio(r) for r, _ in records]))
        if away:
            most = max(away, key=lambda joint: away[joint])
            steps.append(
                f"After lag, gain and offset {most} is still {away[most]:.1f} times its own noise floor away (median "
                "over the motions that repeat): a better model of that joint pays most."
            )
        else:
            steps.append(
                "After lag, gain and offset every joint that repeats is within its own noise floor: no model can be "
                "shown to be better with these logs."
            )
    drifts = clock_drifts(ledger)
    if drifts:
        steps.append("Check the clocks: " + " ".join(drifts))
    return steps


def _impossible(ledger: ArmLedger) -> list[str]:
    """What no arm can have done, in sentences."""
    found: dict[str, dict[str, list[JointRecord]]] = {}
    for motion in ledger.motions:
        for r in motion.joints:
            if r.impossible:
                found.setdefault(r.impossible, {}).setdefault(motion.log.name, []).append(r)
    steps = []
    for reason, motions in found.items():
        where = "; ".join(f"{name}: {', '.join(map(_ahead, records))}" for name, records in motions.items())
        check = (
            "the log may hold what a driver echoed"
            if reason == "its measurement is its command"
            else "command and measurement may be swapped, commands logged late, or their clocks set apart"
        )
        steps.append(
            f"This cannot be: {reason} ({where}). Check the log: {check}. None of it is written into family.json."
        )
    return steps


def _ahead(record: JointRecord) -> str:
    early = -1e3 * record.lag.lag.value if record.lag.lag else 0.0
    return f"{record.joint} by {early:.0f} ms" if early >= 1.0 else record.joint


def _of(parameters: list[Parameter]) -> str:
    return "" if len(parameters) == 1 else " joint by joint"


def _settings(parameters: list[Parameter], digits: int, unit: str) -> str:
    return "; ".join(
        f"{p.name} = {p.mean:.{digits}f} {unit}, between {p.low:.{digits}f} and {p.high:.{digits}f}" for p in parameters
    )


def _ratio(record: JointRecord) -> float:
    """What is left over the noise floor, where there is one."""
    return record.left / max(record.floor.scale.value if record.floor.scale else 0.0, _NOTHING)


def clock_drifts(ledger: ArmLedger) -> list[str]:
    """Motions whose lags all change the same way from the first half to the second."""
    found = []
    for motion in ledger.motions:
        changes = [
            r.lag.halves[1] - r.lag.halves[0]
            for r in motion.joints
            if r.lag.halves and r.lag.lag and abs(r.lag.halves[1] - r.lag.halves[0]) > r.lag.lag.high - r.lag.lag.low
        ]
        same = len(changes) >= 2 and (min(changes) > _DRIFT or max(changes) < -_DRIFT)
        if same:
            found.append(
                f"{motion.log.name}: the lag changes by {np.median(changes) * 1e3:+.0f} ms from the first half to the "
                f"second in {len(changes)} joints."
            )
    return found


def _next(page: Page, ledger: ArmLedger, steps: list[str]) -> None:
    page.section("What to do next")
    for step in steps:
        page.text(step)
    for name, reason in ledger.refused.items():
        page.text(f"Left out: {name}. {reason}", warn=True)
    for motion in ledger.motions:
        for note in motion.log.notes:
            page.text(f"Take care: {motion.log.name}, {note}.", warn=True)


def _summary(page: Page, ledger: ArmLedger) -> None:
    page.section("Joint by joint")
    rows = []
    for joint in ledger.joints:
        p = ledger.pooled(joint)
        rows.append(
            [
                joint, _span_text(p["lag_s"], 1e3, "ms"), _span_text(p["backlash_rad"], 1e3, "mrad"),
                _span_text(p["gain"], 1, "", digits=2), f"{p['rms_error_rad'] * 1e3:.1f} mrad",
                f"{p['rms_residual_rad'] * 1e3:.1f} mrad",
                "none" if p["noise_floor_rad"] is None else f"{p['noise_floor_rad'] * 1e3:.1f} mrad",
            ]
        )  # fmt: skip
    head = ["joint", "lag", "backlash", "gain", "error", "after lag, gain, offset", "noise floor"]
    page.table(head, rows)
    page.text(
        "Median over motions; in square brackets its interval by order statistics of the motions' own, in round ones "
        "their whole span where there are too few motions for an interval. Errors are root mean squares. What remains "
        "between the last two columns is what a simulator with a pure delay gets wrong."
    )


def _lag(page: Page, ledger: ArmLedger) -> None:
    page.section("Lag behind the command [ms]")
    _matrix(page, ledger, _lag_cell)
    page.text(
        "Where the best fit of gain x command(t - lag) + offset lies. In slow motions the dead band adds to it: the "
        "time that the command takes to cross it. The delay that is left beside the backlash stands in the next "
        "section; where it is less than half of the lag, the lag is called mostly dead band."
    )
    width = ledger.settings.latest - ledger.settings.earliest
    fast = [
        m.log.name
        for m in ledger.motions
        if any(r.lag.lag and r.floor.period is not None and r.floor.period < width for r in m.joints)
    ]
    if fast:
        page.text(
            f"{', '.join(fast)}: the command repeats within less than the {width:g} s of the search, so that a lag "
            "there is known but for whole periods; the one nearest above zero is given."
        )
    _reasons(page, [(m.log.name, r.joint, r.lag.reason) for m in ledger.motions for r in m.joints if not r.lag.lag])


def _backlash(page: Page, ledger: ArmLedger) -> None:
    page.section("Backlash [mrad], and the delay beside it [ms]")
    _matrix(
        page,
        ledger,
        lambda r: f"{_text(r.backlash.width, 1e3)}; {_text(r.backlash.delay, 1e3, 0)} ms" if r.backlash.width else "-",
    )
    page.text(
        "How far the command goes back after a reversal before the joint follows. It is the dead band of the whole "
        "path: play of gears, and stiction under the servo's gain. A dash: not identifiable in that motion."
    )
    rows = [
        (m.log.name, r.joint, r.backlash.reason)
        for m in ledger.motions
        for r in m.joints
        if not r.backlash.width and r.backlash.reason != r.lag.reason
    ]
    _reasons(page, rows)


def _noise(page: Page, ledger: ArmLedger) -> None:
    page.section("Noise floor")
    rows: list[list[Any]] = []
    without: list[str] = []
    for motion in ledger.motions:
        found = False
        for r in motion.joints:
            if r.floor.scale is not None and r.floor.worst is not None:
                found = True
                rows.append(
                    [
                        motion.log.name, r.joint, r.floor.repeats, f"{r.floor.period:.3f} s",
                        f"{_text(r.floor.scale, 1e3, 2)} mrad", f"{r.floor.worst * 1e3:.2f} mrad",
                        f"{_ratio(r):.1f}",
                    ]
                )  # fmt: skip
        if not found:
            without.append(motion.log.name)
    if rows:
        page.table(["motion", "joint", "repeats", "period", "scatter", "worst phase", "residual / scatter"], rows)
        page.text(
            "Standard deviation from repeat to repeat at the same phase of the command. A residual of one scatter is "
            "as good as the arm repeats itself; no model can be shown to be better than that with these logs. Only "
            "joints that repeat are listed."
        )
    if without:
        page.text(
            f"No noise floor: one repeat, in {', '.join(without)}. Residuals there cannot be told from scatter.",
            warn=True,
        )


def _departures(page: Page, ledger: ArmLedger) -> None:
    page.section("First departure from lag, gain and offset")
    rows = []
    for motion in ledger.motions:
        first = motion.earliest
        if first is None or first.t is None:
            rows.append(
                [motion.log.name, "none", f"not seen before {motion.joints[0].departure.seen_until:.2f} s", "", ""]
            )
            continue
        others = [
            f"{r.joint} {r.departure.t:.2f} s"
            for r in motion.joints
            if r.departure.t is not None and r.joint != first.joint
        ]
        begun = first.t < motion.t[0] + ledger.settings.settle + 2 * motion.log.dt
        at = f"{first.t:.2f} s" + (", from the start" if begun else "")
        rows.append([motion.log.name, first.joint, at, f"{first.half_width * 1e3:.1f} mrad", ", ".join(others)])
    page.table(["motion", "joint", "time", "half width of the band", "then"], rows)
    s = ledger.settings
    page.text(
        f"The band is the residual's median +- {s.threshold:g} robust standard deviations; a joint departs where it is "
        f"outside for {s.run:g} s. Not seen means not seen in this log: a joint with a wide band can hide a lot. A "
        "joint that rests most of the time has a narrow band, and departs where it moves."
    )


def _motion(page: Page, motion: MotionRecord, ledger: ArmLedger) -> None:
    page.section(motion.log.name)
    page.figure(
        draw_motion(motion, ledger.settings.settle),
        f"{motion.log.name}: commanded and measured, the {_SHOWN:g} s in which most is commanded, and what lag, gain "
        "and offset leave, with the band of the first departure",
    )


def draw_motion(motion: MotionRecord, settle: float) -> Figure:
    """Command, measurement and residual of each joint."""
    import matplotlib.pyplot as plt

    count, height = len(motion.joints), 1.5 * len(motion.joints) + 0.9
    figure, axes = plt.subplots(
        count, 3, figsize=(13, height), squeeze=False,
        gridspec_kw={"width_ratios": [2, 1.4, 1.6]},
    )  # fmt: skip
    t = motion.t
    for k, record in enumerate(motion.joints):
        command, measured = motion.command[:, k], motion.measured[:, k]
        whole, near, rest = axes[k]
        start = _busiest(t, command, settle)
        for axis in (whole, near):
            axis.plot(t, command, color="#8a97a6", lw=0.9, label="commanded")
            axis.plot(t, measured, color="#1f6f8b", lw=0.9, label="measured")
        near.plot(t, record.lag.prediction, color="#c77c11", lw=0.9, ls="--", label="predicted")
        near.set_xlim(start, start + min(_SHOWN, t[-1] - t[0]))
        inside = (t >= start) & (t <= start + _SHOWN)
        shown = np.concatenate([command[inside], measured[inside]])
        pad = max(0.08 * float(np.ptp(shown)), 2e-3)
        near.set_ylim(shown.min() - pad, shown.max() + pad)
        d = record.departure
        rest.axhspan(
            (d.centre - d.half_width) * 1e3, (d.centre + d.half_width) * 1e3, color="#1f6f8b", alpha=0.12, lw=0
        )  # fmt: skip
        residual = (measured - record.lag.prediction) * 1e3
        rest.plot(t, residual, color="#1c2530", lw=0.6)
        kept = residual[t >= t[0] + settle]
        reach = 1.15 * max(float(np.abs(kept - d.centre * 1e3).max()), d.half_width * 1e3)
        rest.set_ylim(d.centre * 1e3 - reach, d.centre * 1e3 + reach)
        if d.t is not None:
            rest.axvline(d.t, color="#b3261e", lw=1)
        whole.set_ylabel(f"{record.joint}\n[rad]", fontsize=8)
        rest.set_ylabel("[mrad]", fontsize=8)
        title = f"lag {_text(record.lag.lag, 1e3)} ms" if record.lag.lag else f"lag: {_short(record.lag.reason)}"
        near.set_title(title, fontsize=8, pad=2)
        for axis in axes[k]:
            axis.tick_params(labelsize=7)
            axis.locator_params(nbins=4)  # most of a figure's time goes into its ticks
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_title("whole", fontsize=8, pad=2)
    axes[0, 2].set_title("residual", fontsize=8, pad=2)
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.55 / height, top=1 - 0.6 / height, hspace=0.55, wspace=0.2)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="upper center", ncols=3, frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("t [s]", fontsize=8)
    return figure


def _busiest(t: np.ndarray, command: np.ndarray, settle: float) -> float:
    """Start of the stretch in which the command moves most [s]."""
    path = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(command)))])
    size = min(int(_SHOWN / (t[1] - t[0])), len(t) - 1)
    moved = path[size:] - path[:-size]
    moved = np.where(t[: len(moved)] >= t[0] + settle, moved, -1.0)
    most = np.flatnonzero(moved >= moved.max() - 1e-9)
    alike = most[: int(np.argmax(np.diff(most, append=len(t) + most[-1]) > 1)) + 1]  # the first stretch of such starts
    return float(t[int(np.median(alike))])


def _method(page: Page, ledger: ArmLedger) -> None:
    s = ledger.settings
    page.section("How this was measured")
    page.text(
        "Command and measurement are read with their own clocks and brought to the measurement's median step. Nothing "
        f"is warped. Lags are looked for from {s.earliest:g} to {s.latest:g} s in steps of 5 ms, with gain and offset "
        "in closed form and a parabola through the three best, and within one period where the command repeats faster "
        f"than that. The first {s.settle:g} s of every motion are left out."
    )
    page.text(
        f"Intervals: {s.draws} draws of a circular moving-block bootstrap, blocks of {s.block:g} s or one period, seed "
        f"{ledger.seed}, percentiles expanded for the number of blocks. They hold scatter within a log, not what "
        "differs between logs. Backlash: a play operator between command and delay, both fitted together. Repeats: "
        "autocorrelation of the command, aligned by the command's phase."
    )


def _matrix(page: Page, ledger: ArmLedger, cell: Any) -> None:
    rows = []
    for motion in ledger.motions:
        by_joint = {r.joint: r for r in motion.joints}
        rows.append([motion.log.name, *(cell(by_joint[j]) if j in by_joint else "not recorded" for j in ledger.joints)])
    page.table(["motion", *ledger.joints], rows)


def _reasons(page: Page, rows: list[tuple[str, str, str]]) -> None:
    grouped: dict[tuple[str, str], list[str]] = {}
    for motion, joint, reason in rows:
        if not reason.startswith("not commanded"):
            grouped.setdefault((motion, reason), []).append(joint)
    for (motion, reason), joints in grouped.items():
        page.text(f"Not identifiable, {motion}, {', '.join(joints)}: {reason}.")


def _lag_cell(record: JointRecord) -> str:
    if record.lag.lag is None:
        return _short(record.lag.reason)
    if record.impossible:
        return f"{_text(record.lag.lag, 1e3)}, impossible"
    return _text(record.lag.lag, 1e3) + (", mostly dead band" if record.mostly_dead_band else "")


def _short(reason: str) -> str:
    return "not commanded" if reason.startswith("not commanded") else "not identifiable"


def _text(estimate: Estimate | None, factor: float, digits: int = 1) -> str:
    if estimate is None:
        return "not identifiable"
    low, high = estimate.low * factor, estimate.high * factor
    return f"{estimate.value * factor:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _span_text(span: dict[str, Any] | None, factor: float, unit: str, digits: int = 0) -> str:
    if span is None:
        return "not identifiable"
    middle = f"{span['median'] * factor:.{digits}f}"
    if span["interval"]:
        low, high = (end * factor for end in span["interval"])
        return f"{middle} [{low:.{digits}f}, {high:.{digits}f}] {unit}".rstrip()
    low, high = span["lowest"] * factor, span["highest"] * factor
    return f"{middle} ({low:.{digits}f} to {high:.{digits}f}) {unit}".rstrip()

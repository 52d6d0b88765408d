"""The plan as a page for the people who collect: why, what, in which order, and how it will be judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dexprior.families import GAPS
from dexprior.transfer.collection.planning import CollectionPlan, normal_width
from dexprior.transfer.collection.sheet import BLOCK, RESULTS, VERIFY, write_sheet
from dexprior.transfer.page import Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["information_figure", "width_figure", "write_plan"]

_INK, _MUTED = "#1f6f8b", "#b8c4ce"


def write_plan(plan: CollectionPlan, out: str | Path) -> Path:
    """Write `plan.json`, `trials.csv` and `plan.html` into a folder; returns the page's path."""
    out = Path(out)
    plan.save(out / "plan.json")
    write_sheet(plan.trials, out / "trials.csv")
    s = plan.settings
    pairs = sum(plan.pairs.values()) + s.panel.pairs
    page = Page(
        "Collection plan",
        f"{len(plan.trials)} runs in {pairs} pairs, {plan.hours:.0f} of {s.budget:g} h of the robot",
    )
    _why(page, plan)
    _order(page, plan)
    for name, pairs in plan.pairs.items():
        _protocol(page, plan, name, pairs)
    _how(page)
    _verification(page, plan)
    return page.write(out / "plan.html")


def information_figure(plan: CollectionPlan) -> Figure:
    """Information an hour of each protocol's first block; planned ones are filled."""
    import matplotlib.pyplot as plt

    rows = list(reversed(plan.table))
    figure, axes = plt.subplots(figsize=(8, 3.2))
    values = [1000 * row["information_nat_per_hour"] for row in rows]
    bars = axes.barh(
        [f"{row['protocol']} ({row['gap']})" for row in rows], values,
        color=[_INK if row["planned_pairs"] else _MUTED for row in rows],
    )  # fmt: skip
    axes.bar_label(bars, labels=[f" {v:.2g}, {row['hours']:.0f} h" for v, row in zip(values, rows)], fontsize=9)
    axes.set_xlabel("expected information about the closable gap [mnat/h]")
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def width_figure(plan: CollectionPlan) -> Figure:
    """Expected width of the closable gap's interval over hours of the robot."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.2))
    hours = [0.0, *(step.total_hours for step in plan.steps)]
    widths = [_normal_width(plan), *(step.expected_width for step in plan.steps)]
    axes.plot(hours, widths, color=_INK, marker="o", markersize=4)
    seen: set[str] = set()
    for step, at, width in zip(plan.steps, hours[1:], widths[1:]):
        if step.protocol not in seen:
            seen.add(step.protocol)
            axes.annotate(
                step.protocol, (at, width), xytext=(2, 5), textcoords="offset points", fontsize=9, rotation=35,
            )  # fmt: skip
    axes.axhline(plan.settings.width, color=_MUTED, linestyle="--")
    axes.annotate("wanted", (0.0, plan.settings.width), xytext=(2, 4), textcoords="offset points", fontsize=9)
    axes.set_xlabel("hours of the robot, verification left out")
    axes.set_ylabel("expected width of the 95 % interval")
    axes.margins(x=0.12)
    axes.set_ylim(0, 1.35 * max(widths))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _normal_width(plan: CollectionPlan) -> float:
    belief = plan.belief()
    return normal_width(belief, plan.settings, belief.variance_of_sum())


def _why(page: Page, plan: CollectionPlan) -> None:
    belief, s = plan.belief(), plan.settings
    low, high = belief.interval()
    page.section("Why")
    page.text(
        f"In the simulator the policy succeeds in {s.sim:.0%}, on the robot in {s.real:.0%} "
        + (f"({s.instances} instances each). " if s.instances else "(assumed). ")
        + f"Collecting can win back {belief.mean:.0%} [{low:.0%}, {high:.0%}] by what is believed now. The runs below "
        "say which collection wins back how much."
    )
    page.table(
        ["gap", "what belongs to it", "probability by the diagnosis", "expected loss of success (95 %)"],
        [
            [gap, what, f"{plan.probabilities.get(gap, 0.0):.0%}", _contribution(belief.contribution(gap))]
            for gap, what in GAPS.items()
        ],
    )
    page.text(f"Nothing that can be collected for: unknown, {plan.probabilities.get('unknown', 0.0):.0%}.")


def _order(page: Page, plan: CollectionPlan) -> None:
    page.section("In which order")
    rows, at = [], 0.0
    for name, pairs in plan.pairs.items():
        p = plan.protocols[name]
        hours = p.opening_hours + pairs * p.pair_hours
        why = "required: the task regulates force" if any(
            step.protocol == name and step.reason == "required" for step in plan.steps
        ) else "information"  # fmt: skip
        rows.append(
            [
                name,
                p.gap,
                f"{p.setup_hours:g} h",
                f"{p.collection_hours:g} h",
                pairs,
                f"{at:.0f} to {at + hours:.0f} h",
                why,
            ]
        )
        at += hours
    panel = plan.settings.panel
    rows.append([VERIFY, "all", "0 h", "0 h", panel.pairs, f"{at:.0f} to {at + panel.hours:.0f} h", "preregistered"])
    page.table(["protocol", "gap", "set up", "collect", "pairs", "hours", "why"], rows)
    ruled_out = [
        name for name, p in plan.protocols.items() if not plan.probabilities.get(p.gap) and name not in plan.pairs
    ]
    if ruled_out:
        page.text(f"Left out, as the diagnosis gives their gaps no probability: {', '.join(ruled_out)}.")
    left_out = [name for name in plan.protocols if name not in plan.pairs and name not in ruled_out]
    if left_out:
        page.text(f"Left out, as they promise too little an hour or do not fit the budget: {', '.join(left_out)}.")
    reached = plan.steps[-1].expected_width if plan.steps else _normal_width(plan)
    page.text(
        f"The 95 % interval of the closable gap is expected to shrink to {reached:.2f} "
        f"(wanted: {plan.settings.width:g}).",
        warn=reached > plan.settings.width,
    )
    page.figure(
        information_figure(plan),
        "What the first block of each protocol is expected to tell about the closable gap, an hour of the robot, "
        "setup and collection included; hours of that block beside the bars. Pale: not planned.",
    )
    page.figure(width_figure(plan), "How wide the interval is expected to be; each point ends a block of pairs.")


def _protocol(page: Page, plan: CollectionPlan, name: str, pairs: int) -> None:
    p = plan.protocols[name]
    page.section(f"{name}: {p.gap}")
    page.text(p.what)
    for requirement in p.requires:
        page.text(f"Before the first recording: {requirement}.", warn=True)
    page.table(
        ["", ""],
        [
            ["collect", f"{p.amount}; {p.setup_hours:g} h to set up, {p.collection_hours:g} h to collect"],
            [
                "then run",
                f"{pairs} pairs of one run without and one with it, in blocks of {BLOCK}"
                + ("; a third run of each by the comparison" if p.comparison else ""),
            ],
            ["vary", "; ".join(f"{k}: {', '.join(v)}" for k, v in p.conditions.items())],
            *([["compare with", p.comparison]] if p.comparison else []),
            ["done when", p.done],
        ],
    )
    page.table(
        ["channel (MCAP)", "unit", "rate"],
        [[r.name, r.unit, f"{r.rate:g} Hz" if r.rate else "once"] for r in p.records],
    )


def _how(page: Page) -> None:
    page.section("How to run and to fill in")
    page.text(
        "First collect, then train one policy with the collection and one without, then run the pairs in the order "
        "of trials.csv: both runs of a pair one after the other, same instance, same conditions, in the order given. "
        "Whoever says whether a run succeeded should not know which policy ran."
    )
    page.text(
        "After each block, read the sheet back (dexprior ledger plan results=trials.csv partial=true): it names the "
        "protocol whose next pairs tell most, given what was seen. It takes fewer pairs than following the whole list."
    )
    page.table(["column", "may hold"], [[name, what] for name, what in RESULTS.items()])
    page.text(
        "One MCAP file a run: commanded and measured channels with units and frames, stamps of device and host. A run "
        "stopped for safety is a failure. Hardware and operator void the pair; do not repeat it."
    )


def _verification(page: Page, plan: CollectionPlan) -> None:
    panel, promised = plan.settings.panel, plan.preregistration
    page.section("Verification, preregistered")
    least = promised["minimum_detectable_effect"]
    page.text(
        f"{panel.pairs} instances, each by the policy before and after. "
        + (
            f"A gain of {least:.0%} is found with a probability of {panel.power:.0%}, if {panel.loss:.0%} of the pairs "
            "go the other way."
            if least is not None
            else "So few pairs can find no gain with the wanted probability: take more."
        ),
        warn=least is None,
    )
    page.table(["test", "rule"], list(promised["tests"].items()))
    page.table(["outcome", "claimed if"], list(promised["outcomes"].items()))
    page.text(
        f"Preregistration {plan.preregistration_hash}. Publish it before the first run; a plan that was changed "
        "later is refused."
    )


def _contribution(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.0%} [{value['low']:.0%}, {value['high']:.0%}]"

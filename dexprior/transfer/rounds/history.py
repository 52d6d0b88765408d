"""Several transfer rounds side by side: whether the gap is closing, and by how much that can be said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import write_json
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import as_described, flag, integer, listed, mapping, text
from dexprior.stats import Comparison, Family, Rate, compare_pairs, compare_rates
from dexprior.transfer.ledger import read_ledger
from dexprior.transfer.page import Page, gap_cells, rate_text

__all__ = ["compare_rounds"]


def compare_rounds(rounds: Sequence[str | Path], folder: str | Path) -> dict[str, Any]:
    """Compare each round's real success with that of the round before; write history.json and history.html.

    Rounds on one panel are compared in pairs of instances (McNemar, Tango), others unpaired (Boschloo, Newcombe); p
    values are corrected for how many rounds there are (Holm).

    Args:
        rounds: ledgers, or folders with a `ledger.json`, oldest first.
        folder: where the page goes.

    Raises:
        ArtifactError: one of them cannot be read.
        BadInput: fewer than two, or two with one name.
    """
    if len(rounds) < 2:
        raise BadInput(f"{len(rounds)} round(s) to compare; give two or more, oldest first")
    paths = [Path(r) / "ledger.json" if Path(r).is_dir() else Path(r) for r in rounds]
    ledgers = [_checked(path) for path in paths]
    names = [f"round {ledger['round']}" for ledger in ledgers]
    if len(set(names)) != len(names):
        raise BadInput(f"two rounds have one name: {', '.join(names)}")
    changes = Family({
        f"{new}, after {old}": _change(a, b, (new, old))
        for old, new, a, b in zip(names, names[1:], ledgers, ledgers[1:])
    })  # fmt: skip
    result = {
        "rounds": [
            {"name": name, "path": str(path), "policy": ledger["policy"], "panel": ledger["panel"],
             "success": ledger["success"], "success_gap": ledger["success_gap"], "slip_gap": ledger["slip_gap"],
             "timing_gap": ledger["timing_gap"], "distance": ledger["distance"], "diagnosis": ledger["diagnosis"],
             "actions": ledger["actions"]}
            for name, path, ledger in zip(names, paths, ledgers)
        ],
        "changes": changes.as_dict(),
    }  # fmt: skip
    page = _page(result, changes)  # before anything is written: it may refuse what stands in a ledger
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "history.json", result)
    return {"page": page.write(folder / "history.html"), "changes": str(changes).splitlines()}


def _checked(path: Path) -> dict[str, Any]:
    """A ledger whose entries are of the types that are compared here."""
    ledger = read_ledger(path)
    with as_described("a ledger", path, ArtifactError):
        for name in ("round", "policy", "panel"):
            text(ledger[name], f"{path}: {name}")
        flag(ledger["paired"], f"{path}: paired")
        for name in ("success_gap", "slip_gap", "timing_gap"):
            mapping(ledger[name], f"{path}: {name}")
        for action in listed(ledger["actions"], f"{path}: actions", empty=True):
            text(action, f"{path}: actions")
        for name in ("success", "outcomes"):
            if len(mapping(ledger[name], f"{path}: {name}")) != 2:
                raise ArtifactError(f"{path}: {name} is of {len(ledger[name])} worlds, expected two")
        for name, rate in ledger["success"].items():
            mapping(rate, f"{path}: success: {name}")
        for name, won in ledger["outcomes"].items():
            for one in listed(won, f"{path}: outcomes: {name}"):
                integer(int(one) if isinstance(one, bool) else one, f"{path}: outcomes: {name}", high=1)
        gap_cells(ledger["success_gap"])
        gap_cells(ledger["slip_gap"])
    return ledger


def _change(before: dict[str, Any], after: dict[str, Any], names: tuple[str, str]) -> Comparison:
    old, new = (np.array(list(ledger["outcomes"].values())[1], dtype=bool) for ledger in (before, after))
    if before["panel"] == after["panel"] and before["paired"] and after["paired"] and len(old) == len(new):
        return compare_pairs(new, old, names=names, panel=after["panel"])
    return compare_rates(Rate(int(new.sum()), len(new)), Rate(int(old.sum()), len(old)), names=names)


def _page(result: dict[str, Any], changes: Family) -> Page:
    page = Page("Transfer rounds", "Is the gap closing?").section("Rounds")
    rows = []
    for r in result["rounds"]:
        sim, real = r["success"].values()
        rows.append([r["name"], r["policy"], rate_text(sim), rate_text(real), *gap_cells(r["success_gap"]),
                     *gap_cells(r["slip_gap"])])  # fmt: skip
    page.table(
        ["round", "policy", "success promised", "success in reality", "success gap", "95 %", "slip gap", "95 %"], rows
    )
    page.section("Success in reality, from round to round")
    for line in str(changes).splitlines():
        page.text(line)
    if any(r["actions"] for r in result["rounds"]):
        page.section("What was done")
        page.table(["before", "action"], [[r["name"], action] for r in result["rounds"] for action in r["actions"]])
    return page.figure(_figure(result["rounds"]), "Success promised by the simulator and reached, with 95 % intervals")


def _figure(rounds: Sequence[dict[str, Any]]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(1.6 + 1.2 * len(rounds), 3))
    for k, (label, colour) in enumerate((("simulator", "#9aa7b4"), ("reality", "#1f6f8b"))):
        rates = [list(r["success"].values())[k] for r in rounds]
        middle = np.array([rate["rate"] for rate in rates])
        ends = np.array([rate["interval"] for rate in rates])
        x = np.arange(len(rounds)) + 0.12 * (k - 0.5)
        axes.errorbar(x, middle, yerr=np.abs(ends.T - middle), fmt="o-", color=colour, capsize=3, label=label)
    axes.set_xticks(range(len(rounds)), [r["name"] for r in rounds])
    axes.set(ylim=(-0.02, 1.02), ylabel="success")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure

"""Self-contained HTML pages: text, tables, figures and clips in one file that opens anywhere."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexprior.artifacts import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Page", "gap_cells", "ledger_section", "rate_text"]

_STYLE = """
:root{--ink:#1c2530;--muted:#5d6b7a;--line:#dde3ea;--accent:#1f6f8b;--paper:#fff}
body{font:15px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:#f4f6f8;margin:0}
main{max-width:1040px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:28px;margin:0 0 4px}h2{font-size:20px;margin:0 0 8px}p.lead{color:var(--muted);margin:0 0 24px}
section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:20px 24px;margin:0 0 18px}
table{border-collapse:collapse;margin:10px 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{text-align:left;padding:5px 16px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--muted);font-weight:600}figure{margin:12px 0}figcaption{color:var(--muted);font-size:13px}
img,video{max-width:100%;border-radius:6px;border:1px solid var(--line);image-rendering:auto}
.big{font-size:22px;font-weight:600;color:var(--accent)}code{background:#eef2f5;padding:1px 5px;border-radius:4px}
pre{margin:-8px 0 14px;overflow-x:auto}pre code{display:inline-block;padding:6px 10px}
.warn{border-left:4px solid #c77c11;padding-left:10px}
"""


class Page:
    """Collects sections, then writes one file."""

    def __init__(self, title: str, lead: str) -> None:
        self.title, self.lead = title, lead
        self._parts: list[str] = []

    def section(self, title: str) -> Page:
        """Start a section."""
        self._parts.append(f"</section><section><h2>{html.escape(title)}</h2>")
        return self

    def text(self, text: str, *, warn: bool = False) -> Page:
        """Add a paragraph."""
        self._parts.append(f"<p{' class=warn' if warn else ''}>{html.escape(text)}</p>")
        return self

    def headline(self, text: str) -> Page:
        """Add a sentence in large letters."""
        self._parts.append(f"<p class=big>{html.escape(text)}</p>")
        return self

    def commands(self, rows: Sequence[tuple[str, str]]) -> Page:
        """Add commands, each with the sentence that says what it is for."""
        for what, command in rows:
            self._parts.append(f"<p>{html.escape(what)}</p><pre><code>{html.escape(command)}</code></pre>")
        return self

    def table(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Page:
        """Add a table."""
        cells = "".join(f"<th>{html.escape(str(h))}</th>" for h in head)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
        self._parts.append(f"<table><tr>{cells}</tr>{body}</table>")
        return self

    def figure(self, figure: Figure, caption: str) -> Page:
        """Add a matplotlib figure as PNG, and close it."""
        import matplotlib.pyplot as plt

        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
        plt.close(figure)
        return self._media("img", "image/png", stream.getvalue(), caption)

    def clip(self, path: Path, caption: str) -> Page:
        """Add an mp4 file, which plays by itself, again and again, with nothing drawn over it."""
        return self._media("video", "video/mp4", path.read_bytes(), caption)

    def write(self, path: Path) -> Path:
        """Write the page."""
        body = "".join(["<section>", *self._parts, "</section>"]).removeprefix("<section></section>")
        text = (
            f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style><main><h1>{html.escape(self.title)}</h1>"
            f"<p class=lead>{html.escape(self.lead)}</p>{body}</main></html>\n"
        )
        return write_atomic(path, text.encode())

    def _media(self, tag: str, kind: str, data: bytes, caption: str) -> Page:
        source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        close = "" if tag == "img" else "</video>"
        extra = f" alt='{html.escape(caption, quote=True)}'" if tag == "img" else " loop muted autoplay playsinline"
        self._parts.append(
            f"<figure><{tag} src='{source}'{extra}>{close}<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
        return self


def ledger_section(page: Page, ledger: dict[str, Any]) -> None:
    """Add a ledger (`Ledger.to_json`) to a page."""
    page.section(f"Transfer ledger: {ledger['policy']}, round {ledger['round']}")
    rows = [
        [world, rate_text(ledger["success"][world]), _interval(ledger["slip_rate"][world])]
        for world in ledger["success"]
    ]
    page.table(["world", "success (95 %)", "slip rate (95 %)"], rows)
    gap, slip = ledger["success_gap"], ledger["slip_gap"]
    page.text(f"{gap['text']}.")
    page.table(
        ["gap", "value", "95 % interval", "n"],
        [
            ["success gap (sim - real)", *gap_cells(gap), gap["n"]],
            ["slip gap (real - sim), held in both", *gap_cells(slip), slip["n"]],
        ],
    )
    if ledger["timing_gap"]["n"]:
        page.text(f"Timing gap (real - sim), where both succeed: {_seconds(ledger['timing_gap'])}.")
    if ledger["diagnosis"]:
        ranked = sorted(ledger["diagnosis"].items(), key=lambda item: -item[1])
        page.table(["gap", "probability"], [[gap, f"{p:.0%}"] for gap, p in ranked])
    for title, what in (("Failures", "signatures"), ("Done since the last round", "actions")):
        if ledger[what]:
            page.text(f"{title}: {'; '.join(ledger[what])}.")
    if ledger["cases"]:
        page.text(
            f"To replay: {len(ledger['cases'])} instance(s) that the simulator solves and the real world does not: "
            f"{', '.join(map(str, ledger['cases'][:20]))}{' ...' if len(ledger['cases']) > 20 else ''}."
        )
    earliest = ledger["earliest"]
    if not earliest["compared"]:
        page.text("First divergence: no traces were compared.")
    page.table(
        ["channel", "parted first in", "median time of parting", "parted in"],
        [
            [
                name,
                f"{earliest['first'].get(name, 0)} of {earliest['compared']}",
                f"{t:.2f} s",
                f"{earliest['seen'][name]} of {earliest['compared']}",
            ]
            for name, t in sorted(earliest["median_t"].items(), key=lambda item: item[1])
        ],
    )
    if ledger["distance"]:
        page.table(
            ["channel", "d(tau_real, tau_sim) [standard deviations of the family]"],
            [[name, f"{value:.2f}"] for name, value in sorted(ledger["distance"].items(), key=lambda item: -item[1])],
        )
    page.table(
        ["assumed parameter", "range", "unit", "provenance"],
        [
            [p["name"], f"{p['low']:g} .. {p['high']:g} ({p['distribution']})", p["unit"], p["provenance"]]
            for p in ledger["assumed"]["parameters"]
        ],
    )
    if ledger["assumptions"]:
        page.table(
            ["the simulator's", "value", "range", "provenance"],
            [[name.replace("_", " "), *_stated(one)] for name, one in ledger["assumptions"].items()],
        )
    for note in ledger["notes"]:
        page.text(note)


def gap_cells(value: dict[str, Any]) -> tuple[str, str]:
    """A gap and its interval, as text; what was never measured is not testable."""
    if not value["n"]:
        return "not testable", "never held in both worlds"
    low, high = value["interval"]
    return f"{value['value']:+.4f}", f"[{low:+.4f}, {high:+.4f}]"


def _stated(one: dict[str, Any] | None) -> tuple[str, str, str]:
    if one is None:
        return "not stated", "", ""
    low, high = one["range"]
    return f"{one['value']:g} {one['unit']}", f"{low:g} .. {high:g}", one["provenance"]


def _seconds(value: dict[str, Any]) -> str:
    low, high = value["interval"]
    return f"{value['value']:+.3f} s [{low:+.3f}, {high:+.3f}], n = {value['n']}"


def rate_text(rate: dict[str, Any]) -> str:
    """A rate of `Rate.as_dict` with its counts and interval."""
    if not rate["n"]:
        return "not testable"
    low, high = rate["interval"]
    return f"{rate['k']}/{rate['n']} = {rate['rate']:.0%} [{low:.0%}, {high:.0%}]"


def _interval(value: dict[str, Any]) -> str:
    if not value["n"]:
        return "not testable: never held"
    low, high = value["interval"]
    return f"{value['value']:.4f} [{low:.4f}, {high:.4f}], n = {value['n']}"

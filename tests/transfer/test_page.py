"""Pages open anywhere: nothing is fetched, nothing is executed, everything is inside."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import pyplot as plt

from dexprior.transfer import Divergence, Ledger, WorldResult
from dexprior.transfer.page import Page, ledger_section
from dexprior.worlds.tasks import Insertion

VOID = {"meta", "img", "br"}
EVIL = "<script>alert('1')</script> & \"quotes\""


class _Balance(HTMLParser):
    """Counts tags; an end tag without its start is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"


def _write(page: Page, tmp_path) -> str:
    return page.write(tmp_path / "page.html").read_text()


@pytest.fixture
def full(tmp_path):
    """A page with everything that there is."""
    (tmp_path / "clip.mp4").write_bytes(b"not really a clip")
    figure, axes = plt.subplots(figsize=(2, 1))
    axes.plot([0, 1], [0, 1])
    page = Page("Report", "What was measured").section("One").text("A sentence.").text("Careful.", warn=True)
    page.table(["name", "value"], [["a", 1], ["b", None]]).figure(figure, "A line")
    page.section("Two").clip(tmp_path / "clip.mp4", "A clip")
    rows = ((Divergence("force", 0.8, 3.0, 20.0), Divergence("pose", None, 3.0, 9.0)),)
    success = np.arange(10) < 6
    ledger = Ledger(
        "1", "a policy", Insertion.family, WorldResult("sim", success, np.zeros(10), np.ones(10, dtype=bool), "p"),
        WorldResult("other", ~success, np.full(10, 0.1), np.ones(10, dtype=bool), "p"), rows,
        ("No hardware was used.",),
    )  # fmt: skip
    ledger_section(page, ledger.to_json())
    return _write(page, tmp_path)


def test_nothing_is_fetched_from_anywhere(full):
    assert not re.search(r"https?://|url\(|@import|<link|<script|<iframe", full.replace("data:", ""))
    assert all(link.startswith("data:") for link in _Balance(full).links)


def test_tags_are_balanced(full):
    parsed = _Balance(full)
    assert parsed.open == []
    assert parsed.tags.count("section") == 3
    assert parsed.tags.count("table") == 5


def test_figures_and_clips_are_inside(full, tmp_path):
    png = re.search(r"data:image/png;base64,([^']+)'", full)
    assert base64.b64decode(png[1]).startswith(b"\x89PNG")
    mp4 = re.search(r"data:video/mp4;base64,([^']+)'", full)
    assert base64.b64decode(mp4[1]) == b"not really a clip"
    assert not plt.get_fignums()  # and closed
    assert re.search(r"<video [^>]*autoplay", full)
    assert not re.search(r"<video [^>]*controls", full)  # nothing lies over a film


def test_text_stays_text(tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"0")
    figure = plt.figure(figsize=(1, 1))
    page = Page(EVIL, EVIL).section(EVIL).text(EVIL).table([EVIL], [[EVIL]])
    page.headline(EVIL).commands([(EVIL, EVIL)])
    page.figure(figure, EVIL).clip(tmp_path / "clip.mp4", EVIL)
    text = _write(page, tmp_path)
    assert "script" not in _Balance(text).tags
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 11
    assert "alert('1')" not in text  # a quote would end an attribute


def test_a_page_that_starts_without_a_section_is_well_formed(tmp_path):
    for page in (Page("a", "b"), Page("a", "b").text("c"), Page("a", "b").text("c").section("d").text("e")):
        assert _Balance(_write(page, tmp_path)).open == []


def test_a_ledger_shows_its_numbers_and_intervals(full):
    for shown in ("6/10 = 60%", "4/10 = 40%", "+0.200", "+0.1000", "McNemar", "bolt_friction", "assumed"):
        assert shown in full
    assert "1 of 1" in full
    assert "0.80 s" in full
    assert "No hardware was used." in full

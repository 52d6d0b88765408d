"""The first screen and the documents behind it: nothing leads nowhere, and what is said of the package is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from PIL import Image

from dexprior import __version__

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "datasets").glob("*.md")),
]  # fmt: skip
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _anchors(path: Path) -> set[str]:
    """Names of a document's headings, as they are linked to."""
    titles = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _links(path: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(path):
    for link in _links(path):
        name, _, anchor = link.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), link
        assert not anchor or anchor in _anchors(there), link


def test_the_index_names_every_page():
    folder = ROOT / "docs"
    named = {(folder / link.partition("#")[0]).resolve() for link in _links(folder / "README.md")}
    pages = [*folder.glob("*.md"), *(folder / "tutorials").glob("*.md")]
    assert {page for page in pages if page.name != "README.md"} <= named


def test_the_readme_is_one_screen_with_a_picture_that_moves():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    pictures = [ROOT / "docs" / "line.gif"]
    assert all(str(path.relative_to(ROOT)) in "\n".join(lines) for path in pictures)
    for path in pictures:
        assert path.stat().st_size <= 1_500_000
        assert getattr(Image.open(path), "n_frames", 1) > 10


def test_badges_say_what_the_package_says():
    first, past = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    versions = [f"3.{minor}" for minor in range(int(first), int(past))]
    assert " | ".join(versions) in (ROOT / "docs" / "badges" / "python.svg").read_text()
    assert PROJECT["license"] in (ROOT / "docs" / "badges" / "licence.svg").read_text()
    assert ", ".join(versions) in (ROOT / "README.md").read_text()


def test_it_is_cited_as_what_it_is():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"]
    assert cited["version"] == PROJECT["version"] == __version__
    assert cited["license"] == PROJECT["license"]

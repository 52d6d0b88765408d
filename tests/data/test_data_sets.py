"""Named data sets: found where they are, explained where they are not."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dexprior.data import catalog
from dexprior.errors import BadInput, UnknownName

ROOT = os.environ.get("DEXPRIOR_DATA")
CARDS = Path(__file__).parents[2] / "datasets"


@pytest.fixture
def empty(monkeypatch, tmp_path):
    monkeypatch.delenv("DEXPRIOR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", catalog.names())
def test_an_absent_set_says_where_it_comes_from(empty, name):
    entry = catalog.describe(name)
    assert catalog.find(name) is None
    with pytest.raises(BadInput) as caught:
        catalog.get(name)
    for part in (name, entry.source, entry.licence, str(empty), *entry.files, "$DEXPRIOR_DATA is not set"):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", catalog.names())
def test_every_set_has_a_card_with_its_checksums(name):
    card = CARDS / f"{name.replace('-', '_')}.md"
    if not card.is_file():
        pytest.skip(f"no {card.name} in this installation")
    text = card.read_text()
    for digest in catalog.describe(name).files.values():
        assert digest in text
    assert catalog.describe(name).licence in text


def test_the_users_cache_counts(empty):
    folder = catalog.cache_folder() / "hand-landmarks"
    folder.mkdir(parents=True)
    files = list(catalog.describe("hand-landmarks").files)
    for file in files[:-1]:
        (folder / file).write_bytes(b"x")
    assert catalog.find("hand-landmarks") is None, "all files or nothing"
    (folder / files[-1]).write_bytes(b"x")
    assert catalog.get("hand-landmarks") == folder
    assert not any(catalog.verify("hand-landmarks").values())


def test_data_folder_comes_before_the_cache(empty, monkeypatch, tmp_path):
    for root in (tmp_path / "data", catalog.cache_folder()):
        (root / "hand_object").mkdir(parents=True)
        (root / "hand_object" / "dexmv_mustard.npz").write_bytes(b"x")
    monkeypatch.setenv("DEXPRIOR_DATA", str(tmp_path / "data"))
    assert catalog.get("dexmv-mustard") == tmp_path / "data" / "hand_object" / "dexmv_mustard.npz"


@pytest.mark.parametrize("packed", [False, True])
def test_files_are_put_in_place_once_they_are_the_right_ones(empty, monkeypatch, tmp_path, packed):
    right = {"a.bin": b"one", "b.bin": b"two"}
    entry = catalog.describe("hand-landmarks")
    files = {file: hashlib.sha256(data).hexdigest() for file, data in right.items()}
    monkeypatch.setitem(catalog._TABLE, "hand-landmarks", replace(entry, files=files))

    def source(contents: dict[str, bytes]) -> Path:
        folder = tmp_path / "-".join(data.decode() for data in contents.values())
        for file, data in contents.items():
            (folder / "deep").mkdir(parents=True, exist_ok=True)
            (folder / "deep" / file).write_bytes(data)
        return Path(shutil.make_archive(str(folder), "zip", folder)) if packed else folder

    with pytest.raises(BadInput, match=r"b\.bin"):
        catalog.install("hand-landmarks", source({"a.bin": b"one"}))
    with pytest.raises(BadInput, match=r"b\.bin in .* SHA-256 .* damaged"):
        catalog.install("hand-landmarks", source({"a.bin": b"one", "b.bin": b"three"}))
    assert not catalog.cache_folder().exists(), "nothing is written before all is checked"
    folder = catalog.install("hand-landmarks", source(right))
    assert folder == catalog.get("hand-landmarks")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == right


def test_a_source_that_is_no_archive_is_refused(empty, tmp_path):
    (tmp_path / "wheel.whl").write_bytes(b"PK but no archive")
    with pytest.raises(BadInput, match="neither a folder nor a zip"):
        catalog.install("hand-landmarks", tmp_path / "wheel.whl")


def test_a_damaged_member_of_an_archive_is_refused(empty, tmp_path):
    file = next(iter(catalog.describe("hand-landmarks").files))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(file, b"one" * 100)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    start = 30 + len(file) + 4 + 5  # the local header, the name, LZMA's own header
    data[start : start + 8] = b"\xff" * 8
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(BadInput, match=r"a\.zip cannot be unpacked"):
        catalog.install("hand-landmarks", tmp_path / "a.zip")


def test_unknown_set_lists_the_choices():
    with pytest.raises(UnknownName, match="did you mean 'hand-clip'"):
        catalog.get("handclip")


@pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA")
@pytest.mark.parametrize("name", ["ellipse-impacts", "cube-tosses", "hand-clip", "dexmv-mustard", "adroit-door"])
def test_checksums_are_those_of_the_files(name):
    if catalog.find(name) is None:
        pytest.skip(f"$DEXPRIOR_DATA holds no {name}")
    assert all(catalog.verify(name).values())

"""YAML, CSV, arrays, lines, containers, fields and places: what is refused, by name, and what is read as it stands."""

from __future__ import annotations

import gzip
import io
import json
import time
import zipfile

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dexprior.errors import BadInput
from dexprior.reading import (
    as_described,
    entries,
    filled,
    flag,
    gunzipped,
    hdf5_array,
    hdf5_group,
    inside,
    integer,
    listed,
    number,
    numbers,
    opened_hdf5,
    parse_csv,
    parse_yaml,
    read_csv,
    read_lines,
    read_npy,
    read_npz,
    read_parquet,
    read_text,
    text,
)

WORDS = st.text("abcdefgh 01é:-#", max_size=8)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)


def one_sentence(error, *words):
    said = str(error.value)
    assert len(said.splitlines()) == 1, said
    assert len(said) < 500, said
    for word in words:
        assert word in said, said


@given(PLAIN)
def test_yaml_reads_what_the_standard_parser_reads(value):
    assert parse_yaml(yaml.safe_dump(value), "x") == value


def test_yaml_keeps_anchors_that_stand_for_little():
    said = "a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, x: 3}\nc: [*a, *a]\nday: 2026-11-29\n"
    assert parse_yaml(said, "x") == {
        "a": {"x": 1, "y": [1, 2]}, "b": {"x": 3, "y": [1, 2]}, "c": [{"x": 1, "y": [1, 2]}] * 2, "day": "2026-11-29",
    }  # fmt: skip
    assert parse_yaml("", "x") is None
    assert parse_yaml("<: <=\n=: =\n", "x") == {"<": "<=", "=": "="}
    assert parse_yaml("base: &a {<<: {x: 1}, x: 3}\n<<: *a", "x")["base"] == {"x": 3}


LEVELS = ["a: &a [x,x,x,x,x,x,x,x,x]"] + [
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in zip("abcdefghi", "bcdefghij")
]
MERGES = ["a0: &a0 {k0: 1}"] + [
    f"a{i}: &a{i} {{" + ", ".join(f"k{i}{j}: *a{i - 1}" for j in range(9)) + "}" for i in range(1, 10)
]
CHAIN = "\n".join(f"a{i}: &a{i} {'[' * 58}{f'*a{i - 1}' if i else 1}{']' * 58}" for i in range(40))
BAD_YAML = {
    "aliases of aliases": ("\n".join(LEVELS), "100,000"),
    "aliases of mappings": ("\n".join(MERGES), "100,000"),
    "an alias of itself": ("a: &a [*a]", "part of"),
    "deep": ("[" * 5000, "64"),
    "deep, closed": ("[" * 500 + "]" * 500, "64"),
    "a key twice": ("rate: 1\nbody: 2\nrate: 3\n", "'rate' stands twice, again in line 3"),
    "a program": ("!!python/object/apply:os.system ['true']", "not YAML"),
    "binary": ("x: !!binary aGVsbG8=", "bytes"),
    "a set": ("x: !!set {a, b}", "set"),
    "a huge integer": ("x: 1" + "0" * 30, "64 bits"),
    "an integer of thousands of digits": ("x: " + "1" * 9000, "x.yaml"),
    "not a number": ("x: .nan", "nan"),
    "infinite": ("x: [-.inf]", "inf"),
    "two documents": ("a: 1\n---\nb: 2\n", "not YAML"),
    "not YAML": ("a: [1, 2", "not YAML"),
    "a tab": ("a:\n\t- 1", "not YAML"),
    "a list as a key": ("? [1, 2]\n: 3", "not YAML"),
    "a control character": ("a: \x01", "not YAML"),
    "an integer without digits": ('a: 1\nrate: !!int ""', "'' in line 2 cannot be read as int"),
    "a truth value that is none": ('!!bool "x"', "'x' in line 1 cannot be read as bool"),
    "a date that is none": ("!!timestamp x", "cannot be read as timestamp"),
    "a float of base 60 beyond all": ("x: 1:" + "00:" * 300 + "00.5", "cannot be read as float"),
    "deep by aliases": (CHAIN, "64"),
    "keys that are equal": ("1: 2\n0x1: 3", "'0x1' stands twice, again in line 2, first as '1'"),
    "keys that Python takes for equal": ("{1: a, true: b}", "'true' stands twice"),
    "half a surrogate pair": ('x: "\\udc00"', "surrogate"),
    "a letter beyond Unicode": ('x: "\\U00110000"', "not YAML"),
    "a letter beyond an integer": ('x: "\\UFFFFFFFF"', "not YAML"),
    "a version of thousands of digits": (f"%YAML {'1' * 5000}.1\n--- a", "not YAML"),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_yaml_that_cannot_be_used_is_one_sentence(case):
    said, word = BAD_YAML[case]
    start = time.process_time()
    with pytest.raises(BadInput) as error:
        parse_yaml(said, "x.yaml")
    one_sentence(error, "x.yaml", word)
    assert time.process_time() - start < 3.0


def test_a_table_is_read_whoever_saved_it(tmp_path):
    for data in (b"\xef\xbb\xbft,x\r\n1,2\r\n3,4\r\n", b't, x\n"1",2\n\n3,4', b"t,x\n1,2\n3,4\n,\n"):
        (tmp_path / "t.csv").write_bytes(data)
        table = read_csv(tmp_path / "t.csv")
        assert table.columns == ["t", "x"]
        assert table.numbers("t").tolist() == [1, 3]
        assert table.records() == [{"t": "1", "x": "2"}, {"t": "3", "x": "4"}]
    assert np.isnan(parse_csv("a,b\n,1", "x").numbers("a", empty=np.nan)).all()


BAD_CSV = {
    "another width": (b"a,b\n1,2\n1,2,3\n", "line 3"),
    "a quote that is open": (b'a,b\n1,"2\n', "not a CSV"),
    "semicolons": (b"a;b\n1;2\n", "semicolons"),
    "tabs": (b"a\tb\n1\t2\n", "tabs"),
    "a column twice": (b"a,b,a\n1,2,3\n", "'a' twice"),
    "nothing": (b"\n\n", "empty"),
    "a NUL": (b"a,b\n1,\x002\n", "NUL"),
    "binary": (bytes(range(256)), "t.csv"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "another encoding": ("größe,b\n1,2\n".encode("latin1"), "UTF-8"),
    "a field beyond csv's limit": (b"a,b\n1," + b"x" * 200_000, "not a CSV"),
    "no number": (b"a,b\n1,2\n1_0,3\n", "line 3"),
    "empty where a number is needed": (b"a,b\n1,2\n,3\n", "line 3"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_table_that_is_none_is_one_sentence(tmp_path, case):
    data, word = BAD_CSV[case]
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(BadInput) as error:
        read_csv(tmp_path / "t.csv").numbers("a")
    one_sentence(error, "t.csv", word)


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.eye(3)),
    np.array(["ab", "c"]),
    np.array(3),
    np.zeros((0, 2)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=range(len(ARRAYS)))
def test_arrays_come_back_as_numpy_reads_them(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array, y=1)
    for found in (read_npy(tmp_path / "a.npy"), read_npz(tmp_path / "a.npz", ["x"])["x"]):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert found.shape == array.shape
        assert found.flags.writeable


def npy(shape, dtype="<f8", data=b""):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + data


def zipped(method=zipfile.ZIP_DEFLATED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_npy", ".npy"), data)
    return stream.getvalue()


GOOD = npy((2,), data=b"\0" * 16)
BAD_ARRAYS = {
    "a shape beyond the file": npy((10**12,), data=b"\0" * 8),
    "a shape beyond memory": npy((2**60, 2**60), data=b""),
    "a negative shape": npy((-4,), data=b"\0" * 32),
    "more than the shape": npy((1,), data=b"\0" * 64),
    "cut": GOOD[:-3],
    "objects": npy((1,), dtype="|O", data=b"\x80\x02Nq\x00."),
    "fields": npy((1,), dtype=[("a", "<f8"), ("b", "<f8")], data=b"\0" * 16),
    "a header that is none": b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': print}",
    "a header of lists": b"\x93NUMPY\x01\x00\xff\x00" + b"[" * 255,
    "text of no letters": npy((3,), dtype="|S0"),
    "text of no wide letters": npy((3,), dtype="<U0"),
    "no rows of too many": npy((0, 10**18, 10**18)),
    "no rows of more than 64 bits": npy((0, 2**63)),
    "another version": b"\x93NUMPY\x07\x00" + GOOD[8:],
    "text": b"1, 2, 3",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_an_array_that_is_not_what_it_says_is_one_sentence(tmp_path, case):
    (tmp_path / "a.npy").write_bytes(BAD_ARRAYS[case])
    (tmp_path / "a.npz").write_bytes(zipped(x_npy=BAD_ARRAYS[case]))
    for read in (lambda: read_npy(tmp_path / "a.npy"), lambda: read_npz(tmp_path / "a.npz")):
        with pytest.raises(BadInput) as error:
            read()
        one_sentence(error, "a.np")


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


with_two = zipped(x_npy=GOOD)
BAD_ARCHIVES = {
    "a bomb": zipped(x_npy=npy((2**29,), dtype="|u1", data=b"\0" * 2**29)),
    "cut": zipped(x_npy=GOOD)[:-30],
    "a byte that is another": flipped(zipped(x_npy=GOOD), 60),
    "a byte of LZMA that is another": flipped(zipped(zipfile.ZIP_LZMA, x_npy=GOOD), 50),
    "no array": zipped(readme=b"hello"),
    "an array instead": GOOD,
    "text": b"hello",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_an_archive_that_is_none_is_one_sentence(tmp_path, case):
    (tmp_path / "a.npz").write_bytes(BAD_ARCHIVES[case])
    with pytest.raises(BadInput) as error:
        read_npz(tmp_path / "a.npz")
    one_sentence(error, "a.npz")


def test_an_array_that_an_archive_lacks_is_named(tmp_path):
    (tmp_path / "a.npz").write_bytes(zipped(x_npy=GOOD))
    with pytest.raises(BadInput, match=r"no 'y'; it has: x"):
        read_npz(tmp_path / "a.npz", ["y"])


def test_gzip_gives_what_is_whole():
    whole = b"line\n" * 5000
    packed = gzip.compress(whole)
    assert gunzipped(packed, "x") == (whole, "")
    assert gunzipped(packed + packed, "x") == (whole * 2, "")
    found, wrong = gunzipped(packed[:-20], "x")
    assert whole.startswith(found)
    assert "damaged" in wrong
    assert gunzipped(b"text", "x")[0] == b""
    with pytest.raises(BadInput, match="unpacks to more"):
        gunzipped(gzip.compress(b"\0" * (300 << 20), 1), "x")


def test_lines_name_their_line(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": "\xe2\x80\xa8"}\n')
    assert read_lines(path) == [{"a": 1}, {"a": "\u2028"}]
    for bad in (b"[1]", b'{"a": 1', b'{"a": NaN}', b"null"):
        path.write_bytes(b'{"a": 1}\n' + bad)
        with pytest.raises(BadInput, match=r"l\.jsonl, line 2"):
            read_lines(path)


NAMES = ["../x", "a/../../x", "/etc/hostname", "", "  ", "..", "a\\..\\x", "a\0b", 3, None, ["a"], "n" * 5000]


@pytest.mark.parametrize("name", NAMES, ids=[repr(n)[:12] for n in NAMES])
def test_a_path_that_leaves_the_data_set_is_refused(tmp_path, name):
    with pytest.raises(BadInput) as error:
        inside(tmp_path, name, "meta.json: entry 3")
    one_sentence(error, "meta.json: entry 3")


def test_a_link_that_leaves_the_data_set_is_refused(tmp_path):
    (tmp_path / "set" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "set" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "set" / "near").symlink_to(tmp_path / "set" / "sub")
    with pytest.raises(BadInput, match="leads out"):
        inside(tmp_path / "set", "link/x.mp4", "meta")
    for name in ("near/x.mp4", "sub/x.mp4", "a..b/..c.mp4", "./x"):
        assert inside(tmp_path / "set", name, "meta") == tmp_path / "set" / name


def test_templates_are_filled_as_format_would():
    values = {"video_key": "observation.images.a", "chunk_index": 3, "file_index": 12}
    for template in ("videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4", "{file_index}", "x"):
        assert filled(template, values, "info") == template.format(**values)


TEMPLATES = [
    "{video_key.__class__}", "{video_key[0]}", "{0}", "{}", "{other}", "{file_index:>999999999}", "{file_index!r}",
    "{video_key:03d}", "{", "a}b", "{{x}}", 3, None,
]  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES, ids=map(repr, TEMPLATES))
def test_templates_do_nothing_else(template):
    with pytest.raises(BadInput) as error:
        filled(template, {"video_key": "v", "file_index": 1}, "info.json: video_path")
    one_sentence(error, "info.json: video_path")


def test_fields_name_the_place_and_the_value():
    for call in (
        lambda: number("1", "f: x"), lambda: number(True, "f: x"), lambda: number(float("nan"), "f: x"),
        lambda: number(1e300, "f: x", high=10), lambda: number(None, "f: x"), lambda: number(2**70 * 1e300, "f: x"),
        lambda: integer(1.5, "f: x"), lambda: integer(-1, "f: x"), lambda: integer("3", "f: x"),
        lambda: text(3, "f: x"), lambda: text("c", "f: x", choices=("a", "b")), lambda: flag(1, "f: x"),
        lambda: listed("abc", "f: x"), lambda: listed([], "f: x"), lambda: listed(["c"], "f: x", choices=("a",)),
        lambda: entries([1], ("a",), "f: x"), lambda: entries({"b": 1}, ("a",), "f: x"),
        lambda: numbers(["1"], "f: x"), lambda: numbers([None], "f: x"), lambda: numbers([[1], [1, 2]], "f: x"),
        lambda: numbers([1, float("inf")], "f: x"), lambda: numbers([True], "f: x"), lambda: numbers([1, 2], "f: x", 3),
        lambda: numbers([True, 2.0], "f: x"), lambda: numbers([[1, 2], [3, False]], "f: x"),
        lambda: numbers((1, np.True_), "f: x"),
        lambda: numbers({"a": 1}, "f: x"), lambda: numbers([2**63 - 1, 2**64], "f: x", 3),
    ):  # fmt: skip
        with pytest.raises(BadInput) as error:
            call()
        one_sentence(error, "f: x")
    assert number(3, "x", low=3, high=3) == 3.0
    assert numbers([[1, 2], [3, 4.5]], "x", 2, 2).tolist() == [[1, 2], [3, 4.5]]
    assert numbers([], "x", -1, 3).shape == (0, 3)


def test_what_does_not_fit_a_value_names_the_source():
    for wrong in (KeyError("seed"), TypeError("two\nlines"), OverflowError("big"), IndexError("no"), BadInput("low")):
        with pytest.raises(BadInput) as error, as_described("a panel", "p.json"):
            raise wrong
        one_sentence(error, "p.json")


def test_hdf5_reads_nothing_outside_of_the_file(tmp_path):
    import h5py

    np.arange(1000.0).tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["good/x"] = np.arange(3.0)
        file["link"] = h5py.ExternalLink("other.h5", "/x")
        file["soft"] = h5py.SoftLink("/link")
        file["nowhere"] = h5py.SoftLink("/gone")
        file["text"] = "hello"
        file.create_dataset("raw", (1000,), "f8", external=[(str(tmp_path / "secret.bin"), 0, 8000)])
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (3,))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("sparse", (1 << 45,), "f8", chunks=(1 << 20,))
    with opened_hdf5(tmp_path / "a.h5") as file:
        assert hdf5_array(hdf5_group(file, "good", "a.h5"), "x", "a.h5").tolist() == [0, 1, 2]
        for name in ("link", "soft", "nowhere", "raw", "virtual", "sparse", "text", "good", "gone", "good/x/y"):
            with pytest.raises(BadInput) as error:
                hdf5_array(file, name, "a.h5")
            one_sentence(error, "a.h5", name)
    for data in (b"", b"\x89HDF\r\n\x1a\n" + b"\0" * 90, (tmp_path / "a.h5").read_bytes()[:300]):
        (tmp_path / "b.h5").write_bytes(data)
        with pytest.raises(BadInput, match=r"b\.h5"), opened_hdf5(tmp_path / "b.h5") as file:
            hdf5_array(file, "good/x", "b.h5")


def test_parquet_that_is_none_is_one_sentence(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    assert read_parquet(tmp_path / "a.parquet")["a"].to_pylist() == [1, 2, 3]
    whole = (tmp_path / "a.parquet").read_bytes()
    for data in (b"", b"PAR1", whole[:-9], json.dumps({"a": 1}).encode(), whole[:40] + b"\xff" * 60 + whole[100:]):
        (tmp_path / "a.parquet").write_bytes(data)
        with pytest.raises(BadInput) as error:
            read_parquet(tmp_path / "a.parquet")
        one_sentence(error, "a.parquet")


def test_text_of_a_folder_or_a_device_is_refused(tmp_path):
    for path in (tmp_path, "/dev/zero", tmp_path / "gone"):
        with pytest.raises(BadInput) as error:
            read_text(path)
        one_sentence(error, str(path))

"""Files of others are parsed in one place, which has the limits."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "dexprior"
PARSERS = {
    "json.load", "json.loads", "yaml.load", "yaml.safe_load", "yaml.load_all", "csv.reader", "csv.DictReader",
    "np.load", "np.genfromtxt", "np.fromfile", "gzip.open", "gzip.decompress", "gzip.GzipFile", "pickle.load",
    "pickle.loads", "pq.read_table", "pq.ParquetFile", "torch.load", "zipfile.ZipFile", "h5py.File",
}  # fmt: skip
ELSEWHERE = {
    "data/catalog.py: zipfile.ZipFile",  # members by name, whose sizes are summed first
    "data/traces/robomimic.py: h5py.File",  # written
    "data/traces/writer.py: json.loads",  # what was dumped on the same line
}  # fmt: skip


def test_nothing_else_parses_files():
    found = {
        f"{path.relative_to(ROOT)}: {ast.unparse(node.func)}"
        for path in ROOT.rglob("*.py")
        if path.parent.name != "reading"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PARSERS
    }
    assert not found - ELSEWHERE

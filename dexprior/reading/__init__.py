"""Everything that others wrote is read here: with limits, and with errors that name the file, the field and the value.

A reader of this package returns plain data (or arrays) that later code may walk, count and compare without care:
bounded in size and depth, without duplicate keys, integers within 64 bits, text that can be written again.
"""

from dexprior.reading.arrays import read_npy, read_npz
from dexprior.reading.containers import (
    hdf5_array,
    hdf5_dataset,
    hdf5_group,
    hdf5_text,
    opened_hdf5,
    read_parquet,
)
from dexprior.reading.csv_text import TIMES, Table, parse_csv, read_csv, time_column, to_number
from dexprior.reading.fields import as_described, entries, flag, integer, listed, mapping, number, numbers, shown, text
from dexprior.reading.files import existing, gunzipped, most_unpacked, read_bytes, read_text, text_of
from dexprior.reading.json_text import parse_json, parse_json_object, read_json, read_json_object
from dexprior.reading.lines import read_lines
from dexprior.reading.pickles import Stub, read_pickle, read_pickled_npy
from dexprior.reading.places import filled, inside
from dexprior.reading.yaml_text import parse_yaml, read_yaml

__all__ = [
    "TIMES",
    "Stub",
    "Table",
    "as_described",
    "entries",
    "existing",
    "filled",
    "flag",
    "gunzipped",
    "hdf5_array",
    "hdf5_dataset",
    "hdf5_group",
    "hdf5_text",
    "inside",
    "integer",
    "listed",
    "mapping",
    "most_unpacked",
    "number",
    "numbers",
    "opened_hdf5",
    "parse_csv",
    "parse_json",
    "parse_json_object",
    "parse_yaml",
    "read_bytes",
    "read_csv",
    "read_json",
    "read_json_object",
    "read_lines",
    "read_npy",
    "read_npz",
    "read_parquet",
    "read_pickle",
    "read_pickled_npy",
    "read_text",
    "read_yaml",
    "shown",
    "text",
    "text_of",
    "time_column",
    "to_number",
]

"""Everything that others wrote is read here: with limits, and with errors that name the file, the field and the value.

A reader of this package returns plain data (or arrays) that later code may walk, count and compare without care:
bounded in size and depth, without duplicate keys, integers within 64 bits, text that can be written again.
"""

from dexprior.reading.files import read_bytes, read_text, text_of
from dexprior.reading.json_text import parse_json, parse_json_object, read_json, read_json_object

__all__ = [
    "parse_json",
    "parse_json_object",
    "read_bytes",
    "read_json",
    "read_json_object",
    "read_text",
    "text_of",
]

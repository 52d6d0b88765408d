"""Everything that is written to disk: typed values, networks, training states and run folders. No pickle anywhere."""

from dexprior.artifacts.claims import claimed
from dexprior.artifacts.files import (
    file_hash,
    pack_tensors,
    read_json,
    read_meta,
    read_object,
    read_tensors,
    tensor_header,
    unpack_tensors,
    write_atomic,
    write_json,
    write_tensors,
)
from dexprior.artifacts.header import Header, checked_header, make_header, package_versions, read_header
from dexprior.artifacts.networks import (
    load_module,
    load_network,
    load_training_state,
    save_module,
    save_training_state,
    whole,
)
from dexprior.artifacts.runs import RunFolder
from dexprior.artifacts.values import from_tensors, load, load_all, save, to_tensors

__all__ = [
    "Header",
    "RunFolder",
    "checked_header",
    "claimed",
    "file_hash",
    "from_tensors",
    "load",
    "load_all",
    "load_module",
    "load_network",
    "load_training_state",
    "make_header",
    "pack_tensors",
    "package_versions",
    "read_header",
    "read_json",
    "read_meta",
    "read_object",
    "read_tensors",
    "save",
    "save_module",
    "save_training_state",
    "tensor_header",
    "to_tensors",
    "unpack_tensors",
    "whole",
    "write_atomic",
    "write_json",
    "write_tensors",
]

"""Everything on disk is safetensors and JSON: typed values with dexprior, plain NumPy arrays without it.

python examples/05_read_artifacts.py [SAMPLES]     a file of example 03 or of `dexprior sample`
"""

import json
import sys

from safetensors import safe_open
from safetensors.numpy import load_file

from dexprior.artifacts import load_all, read_header
from dexprior.types import VideoSample

file = sys.argv[1] if len(sys.argv) > 1 else "runs/examples/samples/samples.safetensors"

# without dexprior: arrays by name, and what they are as JSON in the file's metadata
arrays = load_file(file)
for name, array in sorted(arrays.items())[:12]:
    print(f"{name:40} {array.dtype!s:8} {array.shape}")
with safe_open(file, "numpy") as stream:
    meta = stream.metadata()
print("metadata:", {key: json.loads(value) if value[:1] == "{" else value for key, value in meta.items()}.keys())

# with it: values that know their shapes, units and frames, and refuse what is damaged or of another version
header = read_header(file)
print(f"made by {header.producer} with dexprior {header.versions['dexprior']}, {header.created}")
for sample in load_all(file, VideoSample):
    hand = sample.hand
    print(f"{len(sample.frames)} frames of {sample.frames.shape[1]} px, object {sample.object.object!r}")
    print(f"{hand.side} hand: joints {hand.joints.shape} [m], largest force {hand.force.max():.1f} N")

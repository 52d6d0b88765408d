"""Traces on disk: MCAP files of our own, and other formats in and out (docs/traces.md)."""

from dexprior.data.traces.channels import KNOWN, ChannelLayout, Meaning, increasing, read_channel_layout
from dexprior.data.traces.clocks import Gaps, check_clocks, find_gaps
from dexprior.data.traces.events import TraceEvent, events_of
from dexprior.data.traces.formats import FORMATS, TraceFormat, export_traces, import_trace, trace_format, trace_paths
from dexprior.data.traces.grid import rows_at
from dexprior.data.traces.joints import JointPairs, MotionColumns, motion_columns, pair_joints
from dexprior.data.traces.reader import read_trace
from dexprior.data.traces.summary import summarize
from dexprior.data.traces.writer import ChannelSpec, TraceWriter, write_trace

__all__ = [
    "FORMATS",
    "KNOWN",
    "ChannelLayout",
    "ChannelSpec",
    "Gaps",
    "JointPairs",
    "Meaning",
    "MotionColumns",
    "TraceEvent",
    "TraceFormat",
    "TraceWriter",
    "check_clocks",
    "events_of",
    "export_traces",
    "find_gaps",
    "import_trace",
    "increasing",
    "motion_columns",
    "pair_joints",
    "read_channel_layout",
    "read_trace",
    "rows_at",
    "summarize",
    "trace_format",
    "trace_paths",
    "write_trace",
]

"""The layout of LeRobotDataset v3.0, and what of v2.1 differs.

From https://github.com/huggingface/lerobot, release 0.6.1 (`lerobot/datasets/utils.py`, `dataset_metadata.py`,
`dataset_writer.py`, `io_utils.py`, `compute_stats.py`), and https://huggingface.co/docs/lerobot/lerobot-dataset-v3:

meta/info.json                                  versions, counts, path templates, features (dtype, shape, names)
meta/stats.json                                 statistics of every feature over the whole set
meta/tasks.parquet                              task_index, with the sentence as pandas' index, named `task`
meta/episodes/chunk-000/file-000.parquet        one row an episode: length, tasks, where its rows and pictures are
data/chunk-000/file-000.parquet                 one row a frame, one row group an episode, many episodes a file
videos/observation.images.main/chunk-000/file-000.mp4    many episodes a file, one after the other
"""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "CHUNK_SIZE",
    "CODEBASE_VERSION",
    "DATA_PATH",
    "EPISODES_PATH",
    "INDEX_FEATURES",
    "INFO_PATH",
    "QUANTILES",
    "STATS_PATH",
    "TASKS_PATH",
    "VIDEO_PATH",
    "next_file",
    "pandas_index",
]

CODEBASE_VERSION = "v3.0"
CHUNK_SIZE = 1000
"""Files in one chunk folder."""

INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

INDEX_FEATURES: dict[str, dict[str, Any]] = {
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}
"""Features of every data set."""

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}


def next_file(chunk: int, file: int, chunk_size: int = CHUNK_SIZE) -> tuple[int, int]:
    """Indices of the file after this one."""
    return (chunk + 1, 0) if file == chunk_size - 1 else (chunk, file + 1)


def pandas_index(column: str, name: str) -> dict[bytes, bytes]:
    """Parquet metadata that make a text column pandas' index, as `DataFrame.to_parquet` writes them.

    LeRobot finds a task's sentence by the index of the table, not by a column.
    """
    described = [
        {"name": column, "field_name": column, "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
        {"name": name, "field_name": name, "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ]
    names = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    meta = {
        "index_columns": [name],
        "column_indexes": [{**names, "metadata": {"encoding": "UTF-8"}}],
        "columns": described,
        "creator": {"library": "dexprior", "version": "0"},
        "pandas_version": "2.2.0",
    }
    return {b"pandas": json.dumps(meta).encode()}

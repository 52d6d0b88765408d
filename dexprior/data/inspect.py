"""Look at a folder of episodes: a contact sheet, and a page that needs no other file."""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.artifacts import write_atomic
from dexprior.data.clips import encode_clip
from dexprior.data.episodes import EpisodeSet
from dexprior.data.readers import Frames
from dexprior.data.shards import ShardSet, open_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.types import FINGERS, Episode

__all__ = ["Inspection", "contact_sheet", "inspect"]

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f")  # one a finger
_GAP, _BAND = 2, 14  # [px] between pictures; for a row's caption


@dataclass(frozen=True)
class Inspection:
    """What was written, and what could not be shown."""

    sheet: Path
    page: Path
    shown: int
    episodes: int
    unreadable: tuple[str, ...]


def inspect(
    folder: str | Path, out: str | Path, *, most: int = 24, pictures: int = 8, height: int = 96, seed: int = 0
) -> Inspection:
    """Write `contact_sheet.png` and `index.html` of a folder of episodes of either layout.

    Args:
        folder: the episodes.
        out: folder for the two files.
        most: episodes shown, drawn evenly over the folder.
        pictures: of each episode, evenly over its time.
        height: of a picture on the sheet [px].
        seed: offset of the episodes that are drawn.

    Raises:
        ArtifactError: no episodes, or none that can be read.
    """
    episodes, out = open_episodes(folder), Path(out)
    if not len(episodes):
        raise ArtifactError(f"{folder} holds no kept episode; make some with `dexprior data`")
    step = max(len(episodes) / most, 1.0)
    numbers = sorted({int(k * step + seed) % len(episodes) for k in range(min(most, len(episodes)))})
    shown: list[tuple[dict[str, Any], Episode]] = []
    unreadable = [f"{d.episode}: {d.reason}" for d in episodes.damage] if isinstance(episodes, ShardSet) else []
    for number in numbers:
        try:
            shown.append((episodes.row(number), episodes.read(number)))
        except (ArtifactError, BadInput) as error:
            unreadable.append(f"{episodes.name(number)}: {error}")
    if not shown:
        raise ArtifactError(f"no episode of {folder} can be read; the first: {unreadable[0]}")
    sheet = write_atomic(out / "contact_sheet.png", _png(contact_sheet(shown, pictures=pictures, height=height)))
    body = _page(Path(folder).name, episodes, shown, unreadable)
    page = write_atomic(out / "index.html", body.encode())
    return Inspection(sheet, page, len(shown), len(episodes), tuple(unreadable))


def contact_sheet(
    shown: list[tuple[dict[str, Any], Episode]], *, pictures: int = 8, height: int = 96
) -> UInt8[np.ndarray, "height width 3"]:
    """One row an episode: pictures over time, a second camera's middle picture, and a caption."""
    from PIL import Image, ImageDraw

    rows = []
    for row, episode in shown:
        frames = episode.sample.frames
        at = np.linspace(0, len(frames) - 1, pictures).round().astype(int)
        views = [v.frames[len(frames) // 2] for v in episode.views if v.frames is not None]
        rows.append((_caption(row), [_scaled(f, height) for f in [*frames[at], *views]]))
    width = max(sum(p.width + _GAP for p in images) for _, images in rows)
    sheet = Image.new("RGB", (width, len(rows) * (height + _BAND + _GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for k, (caption, images) in enumerate(rows):
        left, top = 0, k * (height + _BAND + _GAP)
        while caption and draw.textlength(caption) > width - 4:
            caption = caption[:-2]
        draw.text((2, top + 1), caption, fill="black")
        for image in images:
            sheet.paste(image, (left, top + _BAND))
            left += image.width + _GAP
    return np.asarray(sheet)


# --- the page ---

_STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:24px;color:#222}
table{border-collapse:collapse;margin:8px 0}td,th{padding:2px 12px 2px 0;text-align:left}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(340px,1fr));gap:20px}
.card{border:1px solid #ddd;border-radius:6px;padding:10px}.card h3{margin:0 0 4px;font-size:14px}
.media{display:flex;gap:6px;flex-wrap:wrap}video{height:128px;background:#000}
.failed{color:#b3261e}.note{color:#666}
"""


def _page(name: str, episodes: EpisodeSet, shown: list[tuple[dict[str, Any], Episode]], unreadable: list[str]) -> str:
    rows = [row for row, _ in shown]
    seconds = [row["frames"] / row["fps"] for row in rows]
    facts = {
        "episodes": f"{len(episodes)}, of which {len(shown)} are shown",
        "tasks": _counts(rows, "task"),
        "objects": _counts(rows, "object"),
        "success": f"{sum(row['success'] for row in rows)} of the {len(rows)} shown",
        "length": f"{min(seconds):.2f} to {max(seconds):.2f} s at {_counts(rows, 'fps')} frames per second",
        "pictures": ", ".join(sorted({f"{row['width']} x {row['height']}" for row in rows})),
        "further cameras": ", ".join(sorted({view for row in rows for view in row["views"]})) or "none",
    }
    table = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
    legend = " ".join(f'<span style="color:{c}">&#9632; {f}</span>' for f, c in zip(FINGERS, _COLOURS))
    legend += ' <span style="color:#222">&#9632; wrench</span>'
    bad = "".join(f"<li>{html.escape(line)}</li>" for line in unreadable)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(name)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(name)}</h1><table>{table}</table>"
        + (f'<h2 class="failed">Cannot be read</h2><ul>{bad}</ul>' if bad else "")
        + f"<p>Force of the fingertips and of the wrench over time: {legend}</p>"
        + f'<div class="grid">{"".join(_card(row, episode) for row, episode in shown)}</div></html>\n'
    )


def _card(row: Mapping[str, Any], episode: Episode) -> str:
    sample = episode.sample
    result = "success" if row["success"] else '<span class="failed">failed</span>'
    media = [_video(sample.frames, sample.fps)]
    media += [_video(view.frames, sample.fps) for view in episode.views if view.frames is not None]
    force = [hand.force for hand in sample.hands]
    wrench = np.linalg.norm(episode.wrench.wrench[:, :3], axis=1)
    return (
        f'<div class="card"><h3>{html.escape(row["id"])}: {html.escape(row["text"])}</h3>'
        f'<div class="note">{html.escape(str(row["object"]))}, {result}, {row["frames"]} frames at {row["fps"]:g} Hz, '
        f"{' and '.join(hand.side for hand in sample.hands)} hand</div>"
        f'<div class="media">{"".join(media)}</div>{_plot(sample.hands[0].t, force, wrench)}</div>'
    )


def _video(frames: Frames, fps: float) -> str:
    data = base64.b64encode(encode_clip(frames, fps, crf=23)).decode()
    poster = base64.b64encode(_png(np.asarray(frames[len(frames) // 2]))).decode()
    source = f"data:video/mp4;base64,{data}"
    play = 'autoplay loop muted onclick="this.paused?this.play():this.pause()"'
    return f'<video {play} poster="data:image/png;base64,{poster}" src="{source}"></video>'


def _plot(
    t: Float[np.ndarray, " time"], force: list[Float[np.ndarray, "time 5"]], wrench: Float[np.ndarray, " time"]
) -> str:
    """Curves as SVG; those of a second hand are dashed."""
    width, height, left, bottom = 320.0, 90.0, 34.0, 16.0
    top = max(*(float(values.max(initial=0.0)) for values in (*force, wrench)), 1e-3)
    span = max(float(t[-1] - t[0]), 1e-9)

    def line(values: np.ndarray, colour: str, dashes: str = "") -> str:
        x = left + (t - t[0]) / span * (width - left - 4)
        y = height - bottom - values / top * (height - bottom - 8)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"{dashes}/>'

    curves = line(wrench, "#222") + "".join(
        line(of_hand[:, k], colour, dashes)
        for of_hand, dashes in zip(force, ("", ' stroke-dasharray="3 2"'))
        for k, colour in enumerate(_COLOURS)
    )
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="100%">'
        f'<path d="M{left:g} 4V{height - bottom:g}H{width - 4:g}" fill="none" stroke="#999"/>'
        f'<g font-size="9" fill="#555"><text x="0" y="12">{top:.3g} N</text>'
        f'<text x="18" y="{height - bottom:g}">0</text>'
        f'<text x="{width - 34:g}" y="{height - 4:g}">{span:.2f} s</text></g>{curves}</svg>'
    )


def _caption(row: Mapping[str, Any]) -> str:
    seconds = row["frames"] / row["fps"]
    result = "" if row["success"] else " FAILED"
    return f"{row['id']}{result}  {row['object']}  {seconds:.2f} s at {row['fps']:g} Hz  {row['text']}"


def _counts(rows: list[dict[str, Any]], key: str) -> str:
    counts = Counter(f"{row[key]:g}" if isinstance(row[key], float) else str(row[key]) for row in rows)
    return ", ".join(name if len(counts) == 1 else f"{name} ({n})" for name, n in counts.most_common())


def _scaled(frame: UInt8[np.ndarray, "height width 3"], height: int) -> Any:
    from PIL import Image

    width = max(round(frame.shape[1] * height / frame.shape[0]), 1)
    return Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR)


def _png(picture: UInt8[np.ndarray, "height width 3"]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(buffer, format="PNG")
    return buffer.getvalue()

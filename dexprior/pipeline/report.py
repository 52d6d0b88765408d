"""The demo's page: clips, learning curves, accuracy, ledger; every number on it comes from the run's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.artifacts import load_all, read_tensors
from dexprior.collision.report import LABELS, plot_accuracy, strongest_opponent
from dexprior.data.clips import write_clip
from dexprior.data.episodes import read_episode, read_index
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import Pictures
from dexprior.geometry.transforms import project
from dexprior.pipeline.stages import TASK, EvaluationConfig
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import actor_policy, run_episodes
from dexprior.retarget.drawing import beside, draw_landmarks
from dexprior.transfer.ledger import read_ledger
from dexprior.transfer.page import Page, ledger_section, rate_text
from dexprior.types import Camera, HandTrajectory, JointTrajectory, VideoSample
from dexprior.worlds.insertion import ABOUT_OTHER
from dexprior.worlds.tasks import TaskWorlds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dexprior.pipeline.demo import DemoConfig

__all__ = ["write_report"]

Frames = UInt8[np.ndarray, "time height width 3"]
_SHOWN = 4
_PIXELS = 240


def write_report(root: Path, config: DemoConfig, results: dict[str, dict[str, Any]]) -> Path:
    """Render the clips, draw the curves and write `report.html` below `root`."""
    media = root / "report"
    media.mkdir(exist_ok=True)
    page = Page("dexprior demo", _lead(config, results))
    _summary(page, results)
    _demonstrations(page, root / "01-demonstrations", media, results["01-demonstrations"])
    _samples(page, root, media, results)
    _retargeting(page, root, media, results)
    _policies(page, root, media, results, config.evaluation)
    _collision(page, root / "06-collision", results["06-collision"])
    ledger_section(page, read_ledger(root / "10-ledger" / "ledger.json"))
    _backends(page, results["11-backends"])
    page.section("How to read this run").text(
        f"Folder {root.name}; configuration, versions, seed and parents of each stage stand in its run.json. "
        f"Seed {config.seed}."
    )
    return page.write(root / "report.html")


def _lead(config: DemoConfig, results: dict[str, dict[str, Any]]) -> str:
    return (
        f"{results['01-demonstrations']['episodes']} generated human demonstrations, a video prior, a pose estimator, "
        f"retargeting, a policy regularized to the result, a learned collision model, and the transfer ledger. "
        f"Everything on this page was simulated or trained in this run, seed {config.seed}."
    )


def _summary(page: Page, results: dict[str, dict[str, Any]]) -> None:
    evaluated, estimator = results["02-prior"], results["03-estimator"]
    prior = evaluated["prior"]
    retarget, behavior = results["04-retargeter"], results["05-behavior"]
    rows = [
        ["prior: distance of the nut to where it went, at the end", _mm(prior["goal_error_mm"])],
        ["the same of the training clip with the nearest condition", _mm(evaluated["nearest"]["goal_error_mm"])],
        ["prior: frames in which the nut moves untouched", _broken(evaluated, "moves_alone")],
        ["prior: frames in which a finger is said to touch but is not near", _broken(evaluated, "touches_air")],
        ["estimator: joint error on held-out clips", _mm(estimator["joint_error_mm"])],
        [
            "estimator against the prior's own motion, on samples",
            _mm(estimator["disagreement_with_prior_mm"]),
        ],
        ["retargeting: contact onset error, replayed on the arm", _ms(retarget.get("onset_error_ms"))],
        ["behavioral prior alone, training scenes", rate_text(behavior["prior_alone_success"])],
    ]
    for name, worlds in results["09-evaluation"]["policies"].items():
        for world, label in (("sim", "training world"), ("other", "other contact")):
            rows.append([f"policy {name}, {label}", rate_text(worlds[world]["success"])])
    page.section("In one table").table(["what", "measured"], rows).text(ABOUT_OTHER)


def _demonstrations(page: Page, folder: Path, media: Path, result: dict[str, Any]) -> None:
    numbers = [row["number"] for row in read_index(folder) if row["kept"]][:_SHOWN]
    episodes = [read_episode(folder, n) for n in numbers]
    frames = beside([_grown(e.sample.frames) for e in episodes])
    path = write_clip(media / "demonstrations.mp4", frames, episodes[0].sample.fps)
    page.section("Human demonstrations").text(
        f"{result['episodes']} kept of {result['attempts']} attempts, in a world with a sticky bolt, slippery fingers "
        "and stiffer contact than the training simulator's."
    ).clip(path, f"{len(episodes)} demonstrations by the skeleton hand; video as recorded")
    figure, axes = _figure(1, 2, (9, 2.6))
    e = episodes[0]
    for k, finger in enumerate(("thumb", "index", "middle")):
        axes[0].plot(e.sample.hand.t, e.sample.hand.force[:, k], label=finger)
    axes[0].set(title="fingertip force [N]", xlabel="s")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].plot(e.wrench.t, np.linalg.norm(e.wrench.wrench[:, :3], axis=1))
    axes[1].set(title="force at the wrist [N]", xlabel="s")
    page.figure(figure, "what the first hand felt")


def _samples(page: Page, root: Path, media: Path, results: dict[str, dict[str, Any]]) -> None:
    samples = load_all(root / "05-behavior" / "examples.safetensors", VideoSample)
    estimated = load_all(root / "05-behavior" / "estimated.safetensors", HandTrajectory)
    plain = beside([_grown(s.frames) for s in samples])
    drawn = beside([_with_hand(s, h) for s, h in zip(samples, estimated)])
    path = write_clip(media / "samples.mp4", np.concatenate([plain, drawn], axis=1), samples[0].fps)
    page.section("Samples of the video prior").clip(
        path,
        "above: sampled clips; below: the same clips with the hand that the pose estimator reads from them",
    )
    figure, axes = _figure(1, 2, (9, 2.6))
    for ax, folder, names in (
        (axes[0], "02-prior", ("motion", "joints", "video")),
        (axes[1], "03-estimator", ("joints", "rotation", "contact")),
    ):
        history = read_tensors(root / folder / "state.safetensors")[1]["progress"]["history"]
        for name in names:
            steps = [row["step"] for row in history if name in row]
            ax.semilogy(steps, _smooth([row[name] for row in history if name in row]), label=name)
        ax.legend(frameon=False, fontsize=8)
        ax.set(xlabel="step")
    axes[0].set_title("losses of the prior")
    axes[1].set_title("losses of the estimator")
    page.figure(figure, "training")
    gap = results["05-behavior"]["disagreement_mm"]
    page.text(f"The estimator's hand lies {_mm(gap)} from the prior's own motion stream, over all samples of the bank.")


def _retargeting(page: Page, root: Path, media: Path, results: dict[str, dict[str, Any]]) -> None:
    folder = root / "05-behavior"
    moves = load_all(folder / "robot.safetensors", JointTrajectory)
    samples = load_all(folder / "examples.safetensors", VideoSample)
    panel = Panel.load(folder / "panel.json")
    frames = beside([_replay(panel, k, move) for k, move in enumerate(moves)])
    path = write_clip(media / "robot.mp4", frames, samples[0].fps)
    page.section("Retargeted to the robot").clip(
        path, "the same samples, retargeted and replayed open loop by the arm in the training simulator"
    )
    result = results["04-retargeter"]
    page.text(
        f"Contact onset on held-out demonstrations: {_ms(result.get('onset_error_ms'))} "
        f"({result['touched']} of {result['clips']} replays touched), "
        f"median relative grip-force error {result.get('grip_force_relative_error') or float('nan'):.0%}."
    )


def _policies(
    page: Page, root: Path, media: Path, results: dict[str, dict[str, Any]], evaluation: EvaluationConfig
) -> None:
    figure, axes = _figure(1, 2, (9, 2.8))
    for name, folder in (("with prior", "07-policy"), ("without prior", "08-policy-plain")):
        curve = results[folder]["curve"]
        steps = [row["step"] / 1000 for row in curve]
        axes[0].plot(steps, [row["success"] for row in curve], label=name)
        axes[1].plot(steps, [row["reward"] for row in curve], label=name)
    axes[0].set(title="success in training", xlabel="thousand environment steps", ylim=(-0.03, 1.03))
    axes[1].set(title="mean reward", xlabel="thousand environment steps")
    axes[0].legend(frameon=False)
    page.section("Policies").figure(
        figure, "PPO with the annealed KL to the behavioral prior, and the same PPO without"
    )
    rows = []
    for name, worlds in results["09-evaluation"]["policies"].items():
        for world, label in (("sim", "training world"), ("other", "other contact")):
            slip = worlds[world]["slip_rate"]
            rows.append(
                [
                    name,
                    label,
                    rate_text(worlds[world]["success"]),
                    f"{slip['mean']:.3f} [{slip['low']:.3f}, {slip['high']:.3f}]",
                ]
            )
    page.table(["policy", "world", "success (95 %)", "slip rate (95 %)"], rows).text(ABOUT_OTHER)
    for world, pair in results["09-evaluation"]["compared"].items():
        page.text(f"{world}: {pair['text']}; over both worlds Holm p = {pair['p_holm']:.2g}.")
    actor = load_actor(root / "07-policy" / "actor.safetensors")
    whole = Panel.sample("other", TASK, evaluation.instances, seed=evaluation.seed, family=TASK.reality)
    panel = whole.take(np.arange(min(_SHOWN, len(whole))))
    backend = SimBackend(TASK.other(), len(panel), family=TASK.reality)
    path = write_clip(media / "policy.mp4", beside(_rollout_frames(actor, backend, panel)), 25.0)
    page.clip(path, "the policy with prior in the world with the other contact, held-out scenes")


def _collision(page: Page, folder: Path, result: dict[str, Any]) -> None:
    figure, axes = _figure(1, 1, (6.4, 4.4))
    plot_accuracy(folder, axes)
    page.section("Collision model").figure(figure, "share of impacts below a relative error")
    source = result.get("source", "generated")
    if source == "generated":
        page.text(
            "No measured impacts were found: generated ones with hidden parameters stand in, of the kind of contact "
            "that measured ones show. Their contact lies in the families of the network and of tuned MuJoCo, so that "
            "the order of the rows says nothing about real impacts; docs/measurements/collision.md has those.",
            warn=True,
        )
    page.text(strongest_opponent(result))
    page.text(
        "One draw of ten impacts. CLASH learns here from fewer simulated impacts and in fewer steps than it takes, to "
        "keep the demo short: at full size, over twenty draws, its tuned row stands beside tuned MuJoCo "
        "(docs/measurements/collision.md)."
    )
    rows = []
    for name in [name for name in LABELS if name in result["methods"]]:
        m = result["methods"][name]
        rows.append([LABELS[name], f"{m['acc_0.1']:.3f}", f"{m['acc_0.2']:.3f}", f"{m['median']:.3f}", m["n"]])
    page.table(["method", "below 0.1", "below 0.2", "median error", "n"], rows)


def _backends(page: Page, result: dict[str, Any]) -> None:
    rows = []
    for name, r in result.items():
        if "stopped" in r:
            rows.append([name, "stopped by the gate", r["stopped"], ""])
        else:
            model = ", ".join(f"{k} {v}" for k, v in r.get("collision_model", {}).items())
            rows.append([name, rate_text(r["success"]), f"{r['largest_force_N']:.1f} N", model])
    page.section("A few episodes through every backend").text(
        "The same policy and scenes in the simulator, with learned collisions, behind the reality server's socket, and "
        "on the loopback robot behind the safety gate. The last two have the other contact."
    ).table(["backend", "success", "largest force", "collision model"], rows)


def _grown(frames: Frames) -> Frames:
    """Enlarge by whole pixels to about `_PIXELS`."""
    factor = max(_PIXELS // frames.shape[1], 1)
    return frames.repeat(factor, axis=1).repeat(factor, axis=2)


def _with_hand(sample: VideoSample, hand: HandTrajectory) -> Frames:
    camera: Camera = sample.camera
    pixels = project(camera.K, camera.T_base_cam, hand.joints) / [camera.width, camera.height]
    return draw_landmarks(_grown(sample.frames), pixels)


def _replay(panel: Panel, k: int, move: JointTrajectory) -> Frames:
    """Frames of one trajectory replayed open loop in its scene."""
    worlds, shown = TaskWorlds(TASK, 1), panel.take([k])
    worlds.reset(np.arange(1), shown.scenes, [shown.family.as_dict(shown.parameters[0])])
    steps = round(float(np.median(np.diff(move.t))) / worlds.model.opt.timestep)
    pictures, frames = Pictures(worlds), []
    for q in move.q:
        worlds.follow(q[None, :7], q[None, 7:], steps=steps)
        frames.append(pictures.frame(0, size=_PIXELS))
    pictures.close()
    return np.stack(frames)


def _rollout_frames(actor: Any, backend: SimBackend, panel: Panel) -> list[Frames]:
    """Frames of one episode in every world."""
    act, pictures = actor_policy(actor), Pictures(backend.worlds)
    shot: list[list[UInt8[np.ndarray, "height width 3"]]] = [[] for _ in range(backend.n)]

    def filmed(observation: dict[str, np.ndarray], reading: Any) -> Float[np.ndarray, "n action"]:
        for k, frames in enumerate(shot):
            frames.append(pictures.frame(k, size=_PIXELS))
        return act(observation, reading)

    run_episodes(filmed, backend, panel)
    pictures.close()
    return [np.stack(frames) for frames in shot]


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    for ax in np.ravel(axes):
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _smooth(values: list[float]) -> Float[np.ndarray, " n"]:
    window = min(20, len(values))
    padded = np.pad(np.asarray(values), (window - 1, 0), mode="edge")
    return np.convolve(padded, np.ones(window) / window, mode="valid")


def _mm(v: dict[str, float]) -> str:
    return f"{v['mean']:.1f} mm [{v['low']:.1f}, {v['high']:.1f}]"


def _ms(v: dict[str, float] | None) -> str:
    return "not testable: no replay touched" if v is None else f"{v['mean']:.1f} ms [{v['low']:.1f}, {v['high']:.1f}]"


def _broken(evaluated: dict[str, Any], law: str) -> str:
    """Share of frames that break a law of contact, near being the middle one of the distances."""
    mine, real = (evaluated[name]["laws"] for name in ("prior", "demonstrations"))
    k = len(mine["gap_mm"]) // 2
    return f"{mine[law][k]:.2%} (demonstrations {real[law][k]:.2%}), near meaning {mine['gap_mm'][k]:.0f} mm"

"""The demo's page: where most is lost, a success and a failure, ladder, clips, learning curves, accuracy, ledger, and
what to do next; every number on it comes from the run's files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import load_all, read_object, read_tensors
from dexprior.behavior import BehaviorPrior
from dexprior.collision.report import LABELS, plot_accuracy, strongest_opponent
from dexprior.data.clips import write_clip
from dexprior.data.stacks import Stack
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.pipeline.films import Frames, grown, rollout_frames, with_hand
from dexprior.pipeline.ladder import RUNGS, judged_clips, scoring_scenes
from dexprior.pipeline.rungs import draw_rungs, largest_loss, left_out_text, loss_text, worlds_by_loss
from dexprior.pipeline.settings import changed_settings
from dexprior.pipeline.worlds import ABOUT_OTHER, SCORING, judging_worlds
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import actor_policy, prior_policy
from dexprior.pose.estimator import load_estimator
from dexprior.pose.fusion import read_sample
from dexprior.retarget.drawing import beside
from dexprior.transfer.ledger import read_ledger
from dexprior.transfer.page import Page, ledger_section, rate_text
from dexprior.types import PriorCondition, VideoSample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dexprior.pipeline.line import Line
    from dexprior.pipeline.settings import LineConfig

__all__ = ["next_commands", "stills", "write_report"]

_SHOWN = 4
_SHOWN_IN = ("other", "others", "laws", "training")
_TRAINED = {
    "05-imitation": "the bank imitated", "06-policy": "then with the KL", "07-policy-no-kl": "then without it",
    "08-policy-plain": "from scratch",
}  # fmt: skip
_WORLDS = {
    "training": "what policies learn in; parameters drawn from the training family",
    "other": "one vector of parameters outside of it; demonstrations were recorded there",
    "others": "drawn from beyond the ends of the training family",
    "laws": "the other world with friction that depends on speed and direction, and, but of what deforms, damping that "
    "grows with depth",
}


def write_report(line: Line, results: dict[str, dict[str, Any]]) -> Path:
    """Render the clips, draw the curves and write `report.html` into the folder of a run.

    Args:
        line: whose stages are done.
        results: what they found.
    """
    root = Path(line.config.out)
    media = root / "report"
    media.mkdir(exist_ok=True)
    held = judged_clips(line.config, line.folder["09-ladder"])
    panel = Panel.load(line.folder["04-behavior"] / "panel.json")
    page = Page(f"dexprior demo: {line.config.task}", _lead(line, results))
    _outcomes(page, line, results["09-ladder"])
    _ladder(page, results["09-ladder"])
    _summary(page, results)
    _demonstrations(page, held, media, results["01-demonstrations"])
    _samples(page, line, media, results)
    _followed(page, line, panel, media, held.fps)
    _policies(page, line, media, results)
    _collision(page, line.folder["10-collision"], results["10-collision"])
    ledger_section(page, read_ledger(line.folder["11-ledger"] / "ledger.json"))
    _backends(page, results["12-backends"])
    _time(page, line, results)
    page.section("What to do next").commands(next_commands(line.config, results["09-ladder"]))
    return page.write(root / "report.html")


def _lead(line: Line, results: dict[str, dict[str, Any]]) -> str:
    return (
        f"{results['01-demonstrations']['successes']} generated human demonstrations of the task {line.config.task}, a "
        "video prior, a pose estimator, retargeting, policies regularized to the result, a learned collision model, "
        f"and the transfer ledger. Everything on this page was simulated or trained in this run, seed "
        f"{line.config.seed}."
    )


def _outcomes(page: Page, line: Line, found: dict[str, Any]) -> None:
    """Where most is lost, then a success of the policy beside a failure, in a world that has both."""
    page.section("Where it loses most").headline(f"In the world {loss_text(found, worlds_by_loss(found)[0])}")
    judged = found["rungs"]["policy"]
    won = {world: np.array(judged[world]["won"], dtype=bool) for world in _SHOWN_IN if world in judged}
    name = next((world for world, w in won.items() if w.any() and not w.all()), next(iter(won)))
    chosen = [k for outcome in (True, False) for k in np.flatnonzero(won[name] == outcome)[:1]]
    world = judging_worlds(line.task)[name]
    panel = world.panel(scoring_scenes(line), seed=SCORING).take(np.array(chosen))
    actor = load_actor(line.folder["06-policy"] / "actor.safetensors")
    backend = world.backend(len(chosen), sensors=line.config.policy.simulation.sensors)
    films, episodes = rollout_frames(actor_policy(actor), backend, panel)
    titles = [f"{'success' if w else 'failure'}, scene {k}" for w, k in zip(episodes.success, chosen)]
    page.figure(
        stills(titles, films, line.task.control_dt),
        f"the policy with prior in the world {name}: {_count(found['rungs']['policy'][name])} scoring scenes succeed"
        + ("" if len(chosen) == 2 else ", which leaves no other outcome to show"),
    )


def stills(titles: Sequence[str], films: Sequence[Frames], period: float) -> Figure:
    """Films side by side, of each four frames from the first to the last.

    Args:
        titles: what each film shows.
        films: of one task.
        period: between two frames [s].
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(4.6 * len(films), 5.0), layout="constrained")
    for part, title, frames in zip(figure.subfigures(1, len(films), squeeze=False)[0], titles, films):
        part.suptitle(title, fontsize=12)
        for ax, k in zip(part.subplots(2, 2).flat, np.linspace(0, len(frames) - 1, 4).round().astype(int)):
            ax.imshow(frames[k])
            ax.set_title(f"{k * period:.1f} s", fontsize=9, pad=2)
            ax.axis("off")
    return figure


def next_commands(config: LineConfig, found: dict[str, Any]) -> list[tuple[str, str]]:
    """What to do after a run: each a sentence, and the command that does it.

    Args:
        config: of the run.
        found: what its ladder found.
    """
    run = shlex.quote(config.out)

    def again(name: str, *changes: str) -> str:
        """The same run with changes, beside it."""
        words = [word for word in changed_settings(config) if word.partition("=")[0] not in _keys(changes)]
        return " ".join(["dexprior demo", *map(shlex.quote, words), *changes, f"out={run}-{name}"])

    lost = largest_loss(found, worlds_by_loss(found)[0])
    remedies = {
        "demonstration": (
            "Most is lost where the robot follows demonstrations: look at those, and at their laws of contact.",
            f"dexprior data inspect source={run}/01-demonstrations out={run}/page",
        ),
        "sample": (
            "Most is lost where the prior samples: train it longer.",
            again("prior", f"prior.steps={2 * config.prior.steps}"),
        ),
        "bank": (
            "Most is lost where samples become the bank: draw several for each scene, and keep the best.",
            again("bank", f"bank.draws={4 * config.bank.draws}"),
        ),
        "policy": (
            "Most is lost where the policy imitates the bank: give it more scenes, and longer.",
            again(
                "policy",
                f"bank.scenes={3 * config.bank.scenes}",
                f"policy.warmup={2 * config.policy.warmup}",
                f"policy.iterations={2 * config.policy.iterations}",
            ),
        ),
    }
    nothing = (
        "Nothing is lost along the line: take a task that is harder.", "dexprior demo task=peg out=runs/peg",
    )  # fmt: skip
    return [
        nothing if lost is None else remedies[lost[1]],
        (
            "A few scenes of one run are noise: judge it again on more of them.",
            f"dexprior ladder run={run} scored=256 out={run}-ladder",
        ),
        ("Look at the policy in other scenes.", f"dexprior play policy={run}/06-policy seed=1 out={run}-play"),
        (
            "See what the prior thinks of new scenes.",
            f"dexprior sample prior={run}/02-prior task={config.task} out={run}-samples",
        ),
        ("With a robot at hand, open a round of the transfer ledger.", f"dexprior ledger new {run}-round"),
    ]


def _keys(words: Sequence[str]) -> set[str]:
    return {word.partition("=")[0] for word in words}


def _ladder(page: Page, found: dict[str, Any]) -> None:
    page.section("What succeeds after each stage")
    for world in worlds_by_loss(found):
        page.text(f"In the world {loss_text(found, world)}")
    for sentence in left_out_text(found):
        page.text(sentence)
    figure, axes = _figure(1, 1, (9, 0.5 * len(found["rungs"]) + 1.2))
    draw_rungs(found, axes)
    page.figure(figure, "success of whatever comes out of each stage, by world")
    worlds = list(next(iter(found["rungs"].values())))
    page.table(
        ["rung", "what acts", *worlds],
        [[rung, RUNGS[rung], *(_count(row.get(world)) for world in worlds)] for rung, row in found["rungs"].items()],
    )
    rows = [[pair, *(_ratio(row.get(world)) for world in worlds)] for pair, row in found["ratios"].items()]
    page.text(
        "Pairs on the same scenes: the successes of the first over those of the second, with bootstrap intervals over "
        "scenes; a ratio to a rung below a tenth is left out."
    ).table(["pair", *worlds], rows)
    page.table(["world", "what it is"], [[world, _WORLDS[world]] for world in worlds])
    page.text(
        "All act on scenes that nothing was trained or chosen on, but the bank, which acts on its own training scenes. "
        "Followed means: the arm follows the tool's path, the gripper its width and force by touch, under sensor "
        "noise; nothing knows where the object is."
    )


def _count(rate: dict[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['k']} of {rate['n']}"


def _ratio(found: dict[str, Any] | None) -> str:
    return "-" if found is None else f"{found['ratio']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def _summary(page: Page, results: dict[str, dict[str, Any]]) -> None:
    evaluated, estimator, bank = results["02-prior"], results["03-estimator"], results["04-behavior"]
    rows = [
        ["prior: distance of the object to where it went, at the end", _mm(evaluated["prior"]["goal_error_mm"])],
        ["the same of the training clip with the nearest condition", _mm(evaluated["nearest"]["goal_error_mm"])],
        ["prior: frames in which the object moves untouched", _broken(evaluated, "moves_alone")],
        ["prior: frames in which a finger is said to touch but is not near", _broken(evaluated, "touches_air")],
        ["estimator: joints on held-out clips", _mm(estimator["joint_error_mm"])],
        ["estimator: joints on samples, against their own motion", _mm(estimator["samples"]["joint_error_mm"])],
        ["the same, the object", _mm(estimator["samples"]["object_error_mm"])],
        ["bank: scenes whose sample holds nothing", f"{bank['idle']} of {bank['scenes']}"],
    ]  # fmt: skip
    if "refined" in bank:
        told = bank["refined"]
        rows.append(
            ["bank: successes in the training world before and after rollouts refined some, and how many they refined",
             f"{told['before']}, {told['after']}, {round(told['share'] * bank['scenes'])} of {bank['scenes']}"]
        )  # fmt: skip
    page.section("What the stages learned").table(["what", "measured"], rows)


def _demonstrations(page: Page, held: Stack, media: Path, result: dict[str, Any]) -> None:
    shown = range(min(_SHOWN, len(held)))
    path = write_clip(media / "demonstrations.mp4", beside([grown(held.seen(k)) for k in shown]), held.fps)
    page.section("Human demonstrations").text(
        f"{result['successes']} of {result['episodes']} attempts succeed, in the other world. These were held out: "
        "nothing was trained on them."
    ).clip(path, f"{len(shown)} demonstrations by the skeleton hand; video as recorded")
    figure, axes = _figure(1, 2, (9, 2.6))
    n = held.length[0]
    t = np.arange(n) / held.fps
    for k, finger in enumerate(("thumb", "index", "middle")):
        axes[0].plot(t, held.force[0, :n, 0, k], label=finger)
    axes[0].set(title="fingertip force [N]", xlabel="s")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].plot(t, 1000 * held.points[0, :n, :, 2].mean(axis=1))
    axes[1].set(title="height of the object [mm]", xlabel="s")
    page.figure(figure, "what the first hand felt, and did")


def _samples(page: Page, line: Line, media: Path, results: dict[str, dict[str, Any]]) -> None:
    samples = load_all(line.folder["04-behavior"] / "examples.safetensors", VideoSample)
    reader = load_estimator(line.folder["03-estimator"] / "estimator.safetensors")
    plain = beside([grown(s.frames) for s in samples])
    conditions = load_all(line.folder["04-behavior"] / "conditions.safetensors", PriorCondition)
    drawn = beside([with_hand(s, read_sample(s, c, reader, "pixels")[0]) for s, c in zip(samples, conditions)])
    path = write_clip(media / "samples.mp4", np.concatenate([plain, drawn], axis=1), samples[0].fps)
    page.section("Samples of the video prior").clip(
        path,
        "above: sampled clips; below: the same clips with the hand that the pose estimator reads from this camera",
    )
    figure, axes = _figure(1, 2, (9, 2.6))
    for ax, stage, names in (
        (axes[0], "02-prior", ("motion", "joints", "video")),
        (axes[1], "03-estimator", ("joints", "rotation", "contact")),
    ):
        history = read_tensors(line.folder[stage] / "state.safetensors")[1]["progress"]["history"]
        for name in names:
            steps = [row["step"] for row in history if name in row]
            ax.semilogy(steps, _smooth([row[name] for row in history if name in row]), label=name)
        ax.legend(frameon=False, fontsize=8)
        ax.set(xlabel="step")
    axes[0].set_title("losses of the prior")
    axes[1].set_title("losses of the estimator")
    page.figure(figure, "training")
    told = results["03-estimator"]
    page.text(
        f"The estimator's hand lies {_mm(told['samples']['joint_error_mm'])} from the prior's own motion stream, over "
        f"samples seen by all cameras, {_mm(told['one_camera']['joint_error_mm'])} seen by the first alone."
    )


def _followed(page: Page, line: Line, panel: Panel, media: Path, fps: float) -> None:
    bank = BehaviorPrior.load(line.folder["04-behavior"] / "behavior.safetensors")
    ids = np.arange(min(_SHOWN, len(panel)))
    backend = SimBackend(line.task, len(ids))
    frames, _ = rollout_frames(prior_policy(bank, ids), backend, panel.take(ids))
    path = write_clip(media / "robot.mp4", beside(frames), 1.0 / line.task.control_dt)
    page.section("Retargeted to the robot").clip(
        path, "the same samples, retargeted and followed by the arm in the training world"
    )


def _policies(page: Page, line: Line, media: Path, results: dict[str, dict[str, Any]]) -> None:
    figure, axes = _figure(1, 2, (9, 2.8))
    for stage, name in _TRAINED.items():
        curve = results[stage]["curve"]
        steps = [row["step"] / 1000 for row in curve]
        axes[0].plot(steps, [row["success"] for row in curve], label=name)
        axes[1].plot(steps, [row["reward"] for row in curve], label=name)
    axes[0].set(title="success in training", xlabel="thousand environment steps", ylim=(-0.03, 1.03))
    axes[1].set(title="mean reward", xlabel="thousand environment steps")
    axes[0].legend(frameon=False, fontsize=8)
    page.section("Policies").figure(
        figure, "PPO with the annealed KL to the behavioral prior, and the same PPO without"
    )
    world = judging_worlds(line.task)["other"]
    panel = world.panel(scoring_scenes(line), seed=SCORING).take(np.arange(_SHOWN))
    actor = load_actor(line.folder["06-policy"] / "actor.safetensors")
    backend = world.backend(_SHOWN, sensors=line.config.policy.simulation.sensors)
    frames, _ = rollout_frames(actor_policy(actor), backend, panel)
    path = write_clip(media / "policy.mp4", beside(frames), 1.0 / line.task.control_dt)
    page.clip(path, "the policy with prior in the other world, scoring scenes").text(ABOUT_OTHER)


def _time(page: Page, line: Line, results: dict[str, dict[str, Any]]) -> None:
    c = line.config
    work = {
        "01-demonstrations": f"{c.demonstrations.n} attempts", "02-prior": f"{c.prior.steps} steps",
        "03-estimator": f"{c.estimator.steps} steps", "04-behavior": f"{c.bank.scenes} scenes",
        **{name: f"{results[name]['steps']:,} environment steps" for name in _TRAINED},
        "09-ladder": f"{c.scored} scenes a rung", "11-ledger": f"{c.evaluation.instances} scenes",
        "12-backends": f"{c.evaluation.backend_scenes} scenes",
    }  # fmt: skip
    rows = []
    for name, folder in line.folder.items():
        seconds = read_object(folder / "done.json")["seconds"]
        rows.append([name, work.get(name, ""), f"{seconds:.0f}"])
    total = sum(float(row[2]) for row in rows)
    page.section("What it took").table(["stage", "work", "seconds"], [*rows, ["in all", "", f"{total:.0f}"]]).text(
        f"Seconds of a stage that was interrupted are those since it was taken up again. Folder {Path(c.out).name}; "
        f"configuration, versions, seed and parents of each stage stand in its run.json. Seed {c.seed}."
    )


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
        elif "left_out" in r:
            rows.append([name, "-", r["left_out"], ""])
        else:
            model = ", ".join(f"{k} {v}" for k, v in r.get("collision_model", {}).items())
            rows.append([name, rate_text(r["success"]), f"{r['largest_force_N']:.1f} N", model])
    page.section("A few episodes through every backend").text(
        "The same policy and scenes in the simulator, with learned collisions, behind the reality server's socket, and "
        "on the loopback robot behind the safety gate, where the task has one. The last two are the other world."
    ).table(["backend", "success", "largest force", "collision model"], rows)


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


def _broken(evaluated: dict[str, Any], law: str) -> str:
    """Share of frames that break a law of contact, near being the middle one of the distances."""
    mine, real = (evaluated[name]["laws"] for name in ("prior", "demonstrations"))
    k = len(mine["gap_mm"]) // 2
    return f"{mine[law][k]:.2%} (demonstrations {real[law][k]:.2%}), near meaning {mine['gap_mm'][k]:.0f} mm"

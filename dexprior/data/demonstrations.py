"""Human demonstrations of the insertion, generated: simulated, rendered and written in parallel.

Each attempt has its own seed, so the same episodes come out whatever the number of workers, and a killed run goes on
where it stopped. Attempts that fail are counted in the index and not kept: people do not publish those either.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.config import Ge, Gt, config
from dexprior.data.clouds import condition_cloud, local_clouds
from dexprior.data.contacts import contact_schedule
from dexprior.data.episodes import append_index, read_index, write_episode
from dexprior.data.objects import chosen_points, rigid_object
from dexprior.errors import ArtifactError
from dexprior.geometry.transforms import transform_points
from dexprior.hands.mano import contact_configuration
from dexprior.hands.skeleton import forward
from dexprior.types import (
    Camera,
    ContactConfiguration,
    Episode,
    HandTrajectory,
    PriorCondition,
    VideoSample,
    WrenchTrack,
)
from dexprior.worlds.demonstrator import Demonstrator, PinchGrasp, Recording, plan_insertion, solve_pinch
from dexprior.worlds.human import finger_pose_from_hinges
from dexprior.worlds.insertion import InsertionConfig, sample_scenes, video_camera
from dexprior.worlds.render import FrameRenderer

__all__ = ["DemonstrationConfig", "generate", "scene_condition"]

SENTENCES = (
    "put the nut on the bolt",
    "pick up the nut and slide it over the bolt",
    "place the orange nut onto the upright bolt",
    "grasp the nut and insert the bolt into it",
)


@config
class DemonstrationConfig:
    """How many demonstrations, and what they look like."""

    episodes: Annotated[int, Ge(1)] = 400
    """Kept demonstrations."""
    frames: Annotated[int, Ge(8)] = 48
    """Frames of a clip."""
    fps: Annotated[float, Gt(0)] = 24.0
    """Frames per second."""
    size: Annotated[int, Ge(16)] = 96
    """Width and height of the video [px]; decord reads multiples of 32."""
    workers: Annotated[int, Ge(0)] = 0
    """Processes; 0 takes one per core, at most eight."""
    max_attempts: Annotated[int, Ge(1)] = 4000
    """Give up after so many attempts."""


def generate(config: DemonstrationConfig, folder: Path, *, seed: int) -> dict[str, Any]:
    """Make demonstrations in `folder`, or go on making them; returns counts.

    Raises:
        ArtifactError: `max_attempts` did not give `episodes` successes.
        NoGraphics: frames cannot be rendered here.
    """
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    rows = read_index(folder) if (folder / "index.jsonl").exists() else []
    kept = sum(row["kept"] for row in rows)
    if kept < config.episodes:
        workers = config.workers or min(os.cpu_count() or 1, 8)
        grasp = solve_pinch(InsertionConfig().outer_radius)
        jobs = ((config, str(folder), seed, number) for number in range(len(rows), config.max_attempts))
        context = multiprocessing.get_context("spawn")
        bar = tqdm(total=config.episodes, initial=kept, desc="demonstrations", unit="clip")
        with bar, context.Pool(workers, _start_worker, (InsertionConfig(), grasp)) as pool:
            for row in pool.imap(_attempt, jobs):
                append_index(folder, row)
                rows.append(row)
                kept += row["kept"]
                bar.update(int(row["kept"]))
                if kept == config.episodes:
                    break
            pool.terminate()
    if kept < config.episodes:
        raise ArtifactError(f"{config.max_attempts} attempts gave {kept} demonstrations, {config.episodes} were wanted")
    return {"episodes": kept, "attempts": len(rows), "success": kept / len(rows)}


_worker: dict[str, Demonstrator] = {}
"""The one demonstrator of a worker process."""


def _start_worker(world: InsertionConfig, grasp: PinchGrasp) -> None:
    _worker["demonstrator"] = Demonstrator(world, grasp)


def _attempt(job: tuple[DemonstrationConfig, str, int, int]) -> dict[str, Any]:
    config, folder, seed, number = job
    demonstrator = _worker["demonstrator"]
    rng = np.random.default_rng([seed, number])
    scene = {name: value[0] for name, value in sample_scenes(rng, 1).items()}
    habits = int(rng.integers(2**31))
    recording = demonstrator.run(scene, seed=habits, frames=config.frames, fps=config.fps)
    row = {"number": number, "kept": recording.success, "seed": habits}
    if recording.success:
        frames = _render(demonstrator, recording, config.size)
        text = SENTENCES[int(rng.integers(len(SENTENCES)))]
        episode = _episode(config, demonstrator, recording, frames, scene, text, habits)
        write_episode(Path(folder), number, episode, producer="data.demonstrations", seed=habits)
    return row


def _render(demonstrator: Demonstrator, recording: Recording, size: int) -> UInt8[np.ndarray, "time size size 3"]:
    import mujoco

    model, data = demonstrator.model, demonstrator.data
    data.mocap_pos[model.body("bolt").mocapid[0]] = recording.bolt
    frames = np.empty((len(recording.t), size, size, 3), dtype=np.uint8)
    with FrameRenderer(model, camera="video", width=size, height=size) as renderer:
        for k, qpos in enumerate(recording.qpos):
            data.qpos[:] = qpos
            mujoco.mj_kinematics(model, data)
            mujoco.mj_camlight(model, data)
            frames[k] = renderer.render(data)
    return frames


def _episode(
    config: DemonstrationConfig,
    demonstrator: Demonstrator,
    recording: Recording,
    frames: UInt8[np.ndarray, "time size size 3"],
    scene: dict[str, Float[np.ndarray, " n"]],
    text: str,
    habits: int,
) -> Episode:
    n = len(recording.t)
    touching = demonstrator.touching(recording.force)
    hand = HandTrajectory(
        t=recording.t,
        side="right",
        wrist_pose=recording.wrist_pose,
        finger_pose=recording.finger_pose,
        betas=np.zeros(10),
        joints=recording.joints,
        contact=touching.astype(np.float64),
        force=recording.force,
        valid=np.ones(n, dtype=bool),
        sigma=np.zeros((n, 21)),
        scale_known=True,
    )
    nut = rigid_object("nut", recording.t, recording.nut_pose, local=local_clouds(InsertionConfig())[0][:, :3])
    camera = video_camera(config.size)
    sample = VideoSample(
        frames=frames,
        fps=config.fps,
        camera=camera,
        hand=hand,
        object=nut,
        contact=contact_schedule(hand, nut),
        provenance={"source": "demonstration", "seed": habits, "world": "human"},
    )
    condition = _condition(
        InsertionConfig(),
        recording.nut_pose[0],
        recording.bolt,
        contact_configuration(hand, 0),
        contact_configuration(hand, -1),
        camera,
        text,
        frames=n,
        fps=config.fps,
    )
    wrench = WrenchTrack(t=recording.t, wrench=recording.wrench, tared=True, gravity_compensated=True)
    info = {
        "task": "insertion",
        "nut": [float(v) for v in scene["nut"]],
        "bolt": [float(v) for v in scene["bolt"]],
        "nut_yaw": float(scene["nut_yaw"][0]),
        "success": recording.success,
    }
    return Episode(sample=sample, condition=condition, wrench=wrench, info=info)


def scene_condition(
    world: InsertionConfig,
    scene: Mapping[str, Any],
    *,
    seed: int,
    size: int,
    frames: int = 48,
    fps: float = 24.0,
) -> PriorCondition:
    """What to ask the prior for in a scene: an open hand somewhere near, and a pinch with the nut on the bolt.

    Args:
        scene: `nut`, `bolt` (3,) [m] and `nut_yaw` [rad].
        seed: of the person's habits and the wording.
        size: of the frames to be sampled [px].
    """
    rng = np.random.default_rng(seed)
    grasp = solve_pinch(world.outer_radius)
    plan = plan_insertion(world, grasp, scene, rng, frames / fps)
    yaw = float(np.ravel(scene["nut_yaw"])[0])
    nut_pose = np.array([*np.asarray(scene["nut"])[:2], world.height / 2, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])
    pinching = np.array([True, True, True, False, False])

    def configuration(wrist: np.ndarray, hinges: np.ndarray, touching: np.ndarray) -> ContactConfiguration:
        fingers = finger_pose_from_hinges(hinges)
        tips = forward(wrist, fingers)[4::4]
        return ContactConfiguration(
            side="right",
            wrist_pose=wrist,
            finger_pose=fingers,
            betas=np.zeros(10),
            touching=touching,
            points=np.where(touching[:, None], tips, 0.0),
        )

    return _condition(
        world,
        nut_pose,
        np.asarray(scene["bolt"], dtype=np.float64),
        configuration(plan.wrist(0.0), grasp.open, np.zeros(5, dtype=bool)),
        configuration(plan.knots[-1], grasp.touch, pinching),
        video_camera(size),
        SENTENCES[int(rng.integers(len(SENTENCES)))],
        frames=frames,
        fps=fps,
    )


def _condition(
    world: InsertionConfig,
    nut_pose: Float[np.ndarray, 7],
    bolt: Float[np.ndarray, 3],
    start: ContactConfiguration,
    target: ContactConfiguration,
    camera: Camera,
    text: str,
    *,
    frames: int,
    fps: float,
) -> PriorCondition:
    """The hand holds the nut to the end: the target is the last frame."""
    nut, post = local_clouds(world)
    return PriorCondition(
        cloud=condition_cloud(world, nut_pose, bolt),
        moves=np.arange(len(nut) + len(post)) < len(nut),
        points=transform_points(nut_pose, chosen_points(nut[:, :3])),
        start=start,
        target=target,
        target_at=(frames - 1) / fps,
        seconds=frames / fps,
        camera=camera,
        text=text,
        pose=nut_pose,
    )

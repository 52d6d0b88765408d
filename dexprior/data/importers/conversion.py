"""What an importer found becomes an episode of ours: one camera, one hand or two, one object, and its cloud."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.clouds import mesh_triangles, place, triangle_cloud
from dexprior.data.contacts import contact_schedule, release_frame
from dexprior.data.importers.base import Imported, ImportSettings, Mesh, View
from dexprior.data.objects import frame_points, object_frame, rigid_object
from dexprior.errors import BadInput
from dexprior.geometry.timing import hysteresis
from dexprior.hands.mano import contact_configuration
from dexprior.types import (
    Camera,
    Episode,
    HandTrajectory,
    PriorCondition,
    VideoSample,
    WrenchTrack,
)
from dexprior.types.episode import View as EpisodeView

__all__ = ["NEEDED", "chosen_view", "further_views", "mesh_cloud", "scaled_camera", "scaled_size", "to_episode"]

NEEDED = ("pictures", "calibration", "hand", "object")
"""What an episode cannot do without."""


def to_episode(imported: Imported, settings: ImportSettings | None = None) -> Episode:
    """A complete episode of ours.

    What an `Episode` cannot do without (pictures, a calibrated camera, a hand, an object) must have been recorded. The
    rest is filled with zeros where it was not, and `info["not_recorded"]` names it: no reader may take such a wrench,
    contact or force for a measurement. An object without a mesh has a ball of 4 cm around its frame for a cloud.

    Raises:
        BadInput: a needed part is missing; the message names every one.
    """
    if imported.exact is not None:
        return imported.exact()
    settings = settings or ImportSettings()
    view = chosen_view(imported, settings)
    hands = [hand for hand in imported.hands if settings.side in (None, hand.side)]
    thing = next((o for o in imported.objects if o.object == imported.target), None)
    mesh = None if thing is None else imported.meshes.get(thing.object)
    parts = (view, None if view is None else view.camera, hands or None, thing)
    missing = [name for name, part in zip(NEEDED, parts) if part is None]
    if view is None or view.camera is None or not hands or thing is None:
        raise BadInput(f"{imported.episode} lacks {', '.join(missing)}: it is no complete episode")
    size = scaled_size(view, settings.height)
    camera = scaled_camera(view.camera, size)
    frames = view.read(size, 0, view.frames)
    others = further_views(imported, settings, calibrated=True)
    first = int(thing.valid.argmax())
    local = _ball(settings.cloud_points) if mesh is None else mesh_cloud(mesh, settings.cloud_points)
    frame = object_frame(thing)
    cloud = place(local, frame[first])
    if thing.pose is not None:
        thing = rigid_object(thing.object, thing.t, thing.pose, thing.valid, local=local[:, :3])
    touching = [_touching(imported, hand) for hand in hands]
    target = release_frame(np.concatenate(touching, axis=1))
    text = imported.text[0] if imported.text else settings.text or f"a hand uses the {thing.object.replace('_', ' ')}."
    absent = [name for name in imported.absent if name not in NEEDED]
    wrench = imported.wrench or WrenchTrack(
        t=thing.t, wrench=np.zeros((len(thing), 6)), tared=False, gravity_compensated=False
    )
    provenance = {"source": "real", "data_set": imported.kind, "episode": imported.episode, "licence": imported.licence}
    info = {
        **provenance,
        "origin": imported.source,
        "camera": view.name,
        "paraphrases": list(imported.text[1:]),
        "not_recorded": absent,
        "problems": list(imported.problems),
        "other_hands": [hand.side for hand in imported.hands if settings.side not in (None, hand.side)],
        "other_objects": [o.object for o in imported.objects if o is not thing],
        **{k: v for k, v in imported.ids.items() if v is not None},
    }
    return Episode(
        sample=VideoSample(
            frames=frames,
            fps=view.fps,
            camera=camera,
            hands=tuple(hands),
            object=thing,
            contact=contact_schedule(hands, thing, touching=touching),
            provenance=provenance,
        ),
        condition=PriorCondition(
            cloud=cloud,
            moves=np.ones(len(cloud), dtype=bool),
            points=thing.points[0],
            start=tuple(contact_configuration(hand, 0) for hand in hands),
            target=tuple(contact_configuration(hand, target) for hand in hands),
            target_at=target / view.fps,
            seconds=view.frames / view.fps,
            camera=camera,
            text=text,
            pose=None if thing.pose is None else thing.pose[0],
        ),
        wrench=wrench,
        info=info,
        views=tuple(_further(name, other, settings) for name, other in others.items()),
    )


def _ball(points: int) -> Float[np.ndarray, "point 6"]:
    """What stands for an object of which nothing but the frame is known."""
    around = frame_points(points)
    return np.concatenate([around, around / np.linalg.norm(around, axis=1, keepdims=True)], axis=1)


def mesh_cloud(mesh: Mesh, points: int, *, seed: int = 0) -> Float[np.ndarray, "point 6"]:
    """Points and outward normals on a mesh's surface in the object's frame, evenly spread [m].

    Uniform samples of the triangles, thinned by farthest-point sampling; the same for one seed.

    Raises:
        BadInput: no mesh, no triangle, or a size that no hand-held object has.
    """
    triangles = mesh_triangles(mesh.path, mesh.scale)
    extent = float(np.ptp(triangles.reshape(-1, 3), axis=0).max())
    if not 1e-3 <= extent <= 3.0:
        hint = ": the mesh is in millimetres" if 3 < extent <= 3000 else ""
        raise BadInput(f"{mesh.path} is {extent:.3g} m large, an object in a hand has 0.001 to 3 m{hint}")
    return triangle_cloud(triangles, points, seed=seed)


def chosen_view(imported: Imported, settings: ImportSettings) -> View | None:
    """The camera of the settings, else the first calibrated one, else the first.

    Raises:
        BadInput: no camera of that name; the message lists them.
    """
    if settings.view is not None:
        names = [view.name for view in imported.views]
        if settings.view not in names:
            raise BadInput(f"{imported.episode} has no camera {settings.view!r}; it has: {', '.join(names) or 'none'}")
        return imported.views[names.index(settings.view)]
    calibrated = [view for view in imported.views if view.camera is not None]
    return next(iter([*calibrated, *imported.views]), None)


def further_views(imported: Imported, settings: ImportSettings, *, calibrated: bool) -> dict[str, View]:
    """The cameras that are kept beside the chosen one, under names that files can have, each another.

    Args:
        imported: the episode.
        settings: how many, and which one is chosen.
        calibrated: leave out those that are not calibrated.
    """
    chosen = chosen_view(imported, settings)
    others = [v for v in imported.views if v is not chosen and (v.camera is not None or not calibrated)]
    kept: dict[str, View] = {}
    for view in others[: settings.further_views]:
        name = plain = re.sub(r"[^a-z0-9_]+", "_", view.name.lower())
        while name in kept:
            name = f"{plain}_{len(kept)}"
        kept[name] = view
    return kept


def _further(name: str, view: View, settings: ImportSettings) -> EpisodeView:
    assert view.camera is not None
    size = scaled_size(view, settings.height)
    return EpisodeView(name=name, camera=scaled_camera(view.camera, size), frames=view.read(size, 0, view.frames))


def scaled_size(view: View, height: int | None) -> tuple[int, int]:
    """Height and width of the pictures to store; even, as video needs."""
    if height is None or height >= view.height:
        return view.height, view.width
    return 2 * round(height / 2), 2 * round(view.width * height / view.height / 2)


def scaled_camera(camera: Camera, size: tuple[int, int]) -> Camera:
    """The calibration for pictures scaled to (height, width)."""
    scale = np.diag([size[1] / camera.width, size[0] / camera.height, 1.0])
    return Camera(K=scale @ camera.K, T_base_cam=camera.T_base_cam, width=size[1], height=size[0])


def _touching(imported: Imported, hand: HandTrajectory) -> Bool[np.ndarray, "time 5"]:
    """No finger where contact was not measured."""
    contact = hand.contact if imported.touch else np.zeros_like(hand.contact)
    return hysteresis(contact, on=0.5, off=0.25)

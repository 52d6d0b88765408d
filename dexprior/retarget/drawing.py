"""Pictures of a retargeting: the clip, the human's landmarks, and the robot beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.geometry.transforms import invert_pose, look_at, pose_multiply
from dexprior.hands.skeleton import BONES, forward
from dexprior.robots import catalog
from dexprior.robots.identity import model_hash
from dexprior.robots.rigs import rig_model, rig_spec
from dexprior.types import ContactConfiguration, JointTrajectory
from dexprior.worlds.render import FrameRenderer

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "View",
    "beside",
    "draw_grasp",
    "draw_landmarks",
    "draw_retargeting",
    "draw_robot",
    "draw_skeleton",
    "view_of",
]

Frames = UInt8[np.ndarray, "time height width 3"]
Shape = Literal["box", "ellipsoid"]

_COLOURS = (
    (230, 126, 34),
    (46, 134, 222),
    (16, 172, 132),
    (192, 57, 133),
    (240, 190, 20),
)  # thumb ... little
_CLOUD = (150, 158, 170)
_PAPER = 244  # grey of the background


@dataclass(frozen=True)
class View:
    """A place from which a scene is seen."""

    target: tuple[float, float, float]
    """Point in the middle of the picture, base frame [m]."""
    azimuth: float = 180.0
    """Direction of sight about z [degree]: 180 looks along -x, as a viewer on the +x axis does."""
    elevation: float = -10.0
    """Below the horizon when negative [degree]."""
    distance: float = 0.45
    """[m]"""

    def T_base_cam(self) -> Float[np.ndarray, "4 4"]:
        """Camera pose: x right, y down, z forward."""
        a, e = np.deg2rad(self.azimuth), np.deg2rad(self.elevation)
        sight = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        return look_at(np.array(self.target) - self.distance * sight, np.array(self.target))


_FOVY = 40.0  # [degree], vertical
_CAMERA = "drawing"
_PLACES = 12  # times at which is looked where an arm is
_UNSEEN = 4  # group of what is not drawn: sites are places, not shapes


def view_of(
    points: Float[np.ndarray, "*batch 3"],
    *,
    azimuth: float = 180.0,
    elevation: float = -10.0,
) -> View:
    """A view that keeps all points [m] in the picture."""
    points = points.reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = middle = (low + high) / 2
    radius = float(np.linalg.norm(points - middle, axis=1).max()) + 0.03
    distance = radius / np.sin(np.deg2rad(_FOVY / 2))
    return View((float(x), float(y), float(z)), azimuth, elevation, float(distance))


def draw_robot(
    trajectory: JointTrajectory,
    view: View | None = None,
    *,
    object: Float[np.ndarray, "time 7"] | None = None,
    object_shape: Shape = "ellipsoid",
    object_size: tuple[float, float, float] = (0.03, 0.03, 0.05),
    floor: float | None = None,
    size: tuple[int, int] = (256, 320),
    every: int = 1,
) -> Frames:
    """Render a robot hand, or an arm with its end effector, and an object as a plain shape.

    Args:
        trajectory: of a robot of the catalog.
        view: see `view_of`; by default one that keeps the robot's whole motion in the picture.
        object: its poses, at the same times.
        object_shape: box or ellipsoid.
        object_size: half extents [m].
        floor: height of a table to draw [m].
        size: (height, width).
        every: draw every n-th frame.

    Raises:
        UnknownName, MissingExtra, BadInput: no such robot here, or the trajectory is another version's of it.
        NoGraphics: this machine cannot render.
    """
    import mujoco

    spec, names, root = _robot(trajectory)
    _dress(spec, view or view_of(_places(trajectory), azimuth=140.0, elevation=-20.0))
    if object is not None:
        _add_object(spec, object_shape, object_size)
    if floor is not None:
        _add_table(spec, trajectory.ee_pose if object is None else object, floor)
    model = spec.compile()
    data = mujoco.MjData(model)
    address = [int(model.joint(name).qposadr[0]) for name in names]
    base = -1 if root is None else int(model.body(root[0]).mocapid[0])
    thing = int(model.body("drawn_object").mocapid[0]) if object is not None else -1
    frames = np.empty((len(range(0, len(trajectory), every)), *size, 3), dtype=np.uint8)
    with FrameRenderer(model, camera=_CAMERA, width=size[1], height=size[0]) as renderer:
        for k, source in enumerate(range(0, len(trajectory), every)):
            data.qpos[address] = trajectory.q[source]
            if root is not None:
                data.mocap_pos[base], data.mocap_quat[base] = root[1][source, :3], root[1][source, 3:]
            if object is not None:
                data.mocap_pos[thing], data.mocap_quat[thing] = object[source, :3], object[source, 3:]
            mujoco.mj_forward(model, data)
            frames[k] = renderer.render(data)
    return frames


def _robot(trajectory: JointTrajectory) -> tuple[mujoco.MjSpec, list[str], tuple[str, np.ndarray] | None]:
    """A fresh spec of a trajectory's robot, its joints' names there, and of a hand its root and the root's poses."""
    arm, _, name = trajectory.robot.rpartition("+")
    robot = catalog.end_effector(name)
    model = rig_model(arm, name)[1] if arm else robot.model
    if trajectory.model_hash != model_hash(model):
        raise BadInput(
            f"the trajectory is of another {trajectory.robot!r} (model {trajectory.model_hash}, here "
            f"{model_hash(model)}): retarget again"
        )
    if arm:
        rig, spec = rig_spec(arm, name)
        return spec, list(map(rig.name, trajectory.names)), None
    import mujoco

    wrist = catalog.fingers_of(robot).wrist
    spec = robot.build()
    spec.body(robot.root).mocap = True  # it follows the wrist, whatever gravity says
    data = mujoco.MjData(robot.model)
    for name, q in zip(trajectory.names, trajectory.q[0]):
        data.joint(name).qpos[:] = q
    mujoco.mj_kinematics(robot.model, data)
    T_root_tool = pose_multiply(invert_pose(_pose(data.body(robot.root))), _pose(data.site(wrist)))
    return spec, list(trajectory.names), (robot.root, pose_multiply(trajectory.ee_pose, invert_pose(T_root_tool)))


def _places(trajectory: JointTrajectory) -> Float[np.ndarray, "point 3"]:
    """Where shapes of an arm and its end effector are at some times, but for what stands at the origin [m]; where a
    hand's wrist is."""
    arm, _, end = trajectory.robot.rpartition("+")
    if not arm:
        return trajectory.ee_pose[:, :3]
    import mujoco

    rig, model = rig_model(arm, end)
    data = mujoco.MjData(model)
    places = []
    for q in trajectory.q[:: max(len(trajectory) // _PLACES, 1)]:
        for name, at in zip(trajectory.names, q):
            data.joint(rig.name(name)).qpos[:] = at
        mujoco.mj_kinematics(model, data)
        places.append(data.geom_xpos.copy())
    return np.concatenate(places)


def _dress(spec: mujoco.MjSpec, view: View) -> None:
    """Give a robot light, paper around it, and a camera."""
    import mujoco

    for site in spec.sites:
        site.group = _UNSEEN
    for texture in [t for t in spec.textures if t.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX]:
        spec.delete(texture)
    spec.worldbody.add_light(pos=[1.0, -0.6, 1.6], dir=[-0.55, 0.3, -0.8], diffuse=[0.6] * 3, castshadow=True)
    spec.add_texture(
        name="paper",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=[_PAPER / 255] * 3,
        rgb2=[_PAPER / 255] * 3,
        width=8,
        height=48,
    )
    visual = spec.visual
    visual.quality.shadowsize, visual.quality.offsamples = 512, 0  # the cost of software rendering
    visual.quality.numslices, visual.quality.numstacks = 16, 10
    visual.headlight.ambient, visual.headlight.diffuse = [0.35] * 3, [0.30] * 3
    visual.headlight.specular = [0.05] * 3
    visual.map.znear = 0.02
    T = view.T_base_cam()
    quat = quat_from_matrix(T[:3, :3] * [1.0, -1.0, -1.0])  # MuJoCo's cameras have y up and look along -z
    spec.worldbody.add_camera(name=_CAMERA, pos=T[:3, 3], quat=quat, fovy=_FOVY)


def _add_object(spec: mujoco.MjSpec, shape: Shape, half: tuple[float, float, float]) -> None:
    import mujoco

    kinds = {"box": mujoco.mjtGeom.mjGEOM_BOX, "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID}
    if shape not in kinds:
        raise UnknownName("shape", shape, kinds)
    body = spec.worldbody.add_body(name="drawn_object", mocap=True)
    body.add_geom(type=kinds[shape], size=half, rgba=[0.93, 0.77, 0.20, 1.0], contype=0, conaffinity=0)


def _add_table(spec: mujoco.MjSpec, on_it: Float[np.ndarray, "time 7"], height: float) -> None:
    """A slab under what moves, 15 cm wider than its track on every side: hands come from beyond the edge."""
    import mujoco

    track = on_it[:, :2]
    low, high = track.min(axis=0) - 0.15, track.max(axis=0) + 0.15
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=[*(low + high) / 2, height - 0.01],
        size=[*(high - low) / 2, 0.01],
        rgba=[0.78, 0.76, 0.72, 1],
        contype=0,
        conaffinity=0,
    )


def _pose(there: Any) -> Float[np.ndarray, " 7"]:
    """Pose of a body or a site."""
    return np.concatenate([there.xpos, quat_from_matrix(there.xmat.reshape(3, 3))])


# --- two-dimensional panels -------------------------------------------------------------------------------


def draw_skeleton(
    joints: Float[np.ndarray, "time 21 3"],
    view: View,
    *,
    size: tuple[int, int] = (256, 256),
    cloud: Float[np.ndarray, "point 3"] | None = None,
) -> Frames:
    """The 21 landmarks in perspective, as `draw_robot` would see them; one colour a finger, over a cloud's points."""
    from PIL import Image, ImageDraw

    height, width = size
    blank = Image.new("RGB", (width, height), (_PAPER,) * 3)
    if cloud is not None:
        pen, r = ImageDraw.Draw(blank), max(1, height // 150)
        for x, y in _pixels(cloud, view, size):
            pen.ellipse([x - r, y - r, x + r, y + r], fill=_CLOUD)
    return np.stack([_drawn(blank.copy(), p, max(2, height // 90)) for p in _pixels(joints, view, size)])


def draw_grasp(
    hand: ContactConfiguration, cloud: Float[np.ndarray, "point 3"], *, size: int = 360
) -> UInt8[np.ndarray, "height width 3"]:
    """A hand over the points of the object that it holds, seen from two sides.

    Args:
        hand: in the base frame.
        cloud: of the object, in the same frame [m].
        size: height of the picture and half of its width [px].
    """
    joints = forward(hand.wrist_pose, hand.finger_pose, hand.betas, hand.side)
    points = np.concatenate([cloud, joints])
    x, y, z = middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = float(np.linalg.norm(points - middle, axis=1).max()) + 0.01
    distance = radius / np.sin(np.deg2rad(_FOVY / 2))
    views = [View((float(x), float(y), float(z)), azimuth, -15.0, float(distance)) for azimuth in (150.0, 240.0)]
    return beside([draw_skeleton(joints[None], view, size=(size, size), cloud=cloud) for view in views])[0]


def _pixels(points: Float[np.ndarray, "*batch 3"], view: View, size: tuple[int, int]) -> Float[np.ndarray, "*batch 2"]:
    T = view.T_base_cam()
    local = (points - T[:3, 3]) @ T[:3, :3]
    height, width = size
    focal = 0.5 * height / np.tan(np.deg2rad(_FOVY / 2))
    return focal * local[..., :2] / local[..., 2:] + [width / 2, height / 2]


def draw_landmarks(frames: Frames, image: Float[np.ndarray, "time 21 2"]) -> Frames:
    """Landmarks over a clip; frames in which they are NaN stay as they are.

    Args:
        frames: RGB.
        image: (column, row) as fractions of width and height.
    """
    from PIL import Image

    height, width = frames.shape[1:3]
    pixels = image * [width, height]
    thickness = max(1, height // 150)
    return np.stack(
        [_drawn(Image.fromarray(f), p, thickness) if np.isfinite(p).all() else f for f, p in zip(frames, pixels)]
    )


def _drawn(picture: object, pixels: np.ndarray, thickness: int) -> np.ndarray:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)  # type: ignore[arg-type]
    for a, b in BONES:
        pen.line([*map(tuple, pixels[[a, b]])], fill=_COLOURS[(b - 1) // 4], width=thickness)
    for k, (x, y) in enumerate(pixels):
        r = thickness * (1.6 if k and k % 4 == 0 else 1.0)
        pen.ellipse([x - r, y - r, x + r, y + r], fill=_COLOURS[max(k - 1, 0) // 4] if k else (40, 40, 40))
    return np.asarray(picture)


def beside(panels: Sequence[Frames], titles: Sequence[str] = ()) -> Frames:
    """Panels of one length and one height, left to right, with a line of titles above them."""
    from PIL import Image, ImageDraw

    if len({p.shape[:2] for p in panels}) != 1:
        raise BadInput(f"panels of (time, height) {[p.shape[:2] for p in panels]}: expected one for all")
    row = np.concatenate(panels, axis=2)
    if not titles:
        return row
    strip = Image.new("RGB", (row.shape[2], 18), (255, 255, 255))
    pen = ImageDraw.Draw(strip)
    left = 0
    for panel, title in zip(panels, titles):
        pen.text((left + 6, 3), title, fill=(30, 30, 30))
        left += panel.shape[2]
    head = np.broadcast_to(np.asarray(strip), (len(row), 18, row.shape[2], 3))
    return np.concatenate([head, row], axis=1)


def draw_retargeting(
    joints: Float[np.ndarray, "time 21 3"],
    trajectory: JointTrajectory,
    *,
    clip: Frames | None = None,
    image: Float[np.ndarray, "time 21 2"] | None = None,
    object: Float[np.ndarray, "time 7"] | None = None,
    object_shape: Shape = "ellipsoid",
    object_size: tuple[float, float, float] = (0.03, 0.03, 0.05),
    floor: float | None = None,
    view: View | None = None,
    height: int = 256,
    every: int = 1,
) -> Frames:
    """Clip (with landmarks, where they are known), skeleton and robot beside each other.

    Args:
        joints: of the human hand, base frame; all that is drawn is given at the trajectory's times [m].
        trajectory: the robot's motion for it.
        clip: the hand's frames, of any size; left out when None.
        image: landmarks in the clip as fractions of width and height.
        object: its poses.
        object_shape: box or ellipsoid.
        object_size: half extents [m].
        floor: height of a table to draw [m].
        view: chosen to keep everything in the picture when omitted; an arm has one of its own then.
        height: of the panels [pixel]; 600 frames take 0.4 GB at 256.
        every: draw every n-th frame.

    Raises:
        BadInput: lengths differ, or see `draw_robot`.
        NoGraphics: this machine cannot render.
    """
    if len(trajectory) != len(joints) or (clip is not None and len(clip) != len(joints)):
        raise BadInput(
            f"{len(joints)} frames of the hand, {len(trajectory)} of the robot"
            + ("" if clip is None else f", {len(clip)} of the clip")
        )
    points = joints.reshape(-1, 3)
    human = view or view_of(points if object is None else np.concatenate([points, object[:, :3]]))
    panels, titles = [], []
    if clip is not None:
        shown = _scaled(clip[::every], height)
        panels.append(shown if image is None else draw_landmarks(shown, image[::every]))
        titles.append("clip")
    panels.append(draw_skeleton(joints[::every], human, size=(height, height)))
    titles.append("landmarks")
    panels.append(
        draw_robot(
            trajectory,
            view if "+" in trajectory.robot else human,
            object=object,
            object_shape=object_shape,
            object_size=object_size,
            floor=floor,
            size=(height, height),
            every=every,
        )
    )
    titles.append(trajectory.robot)
    return beside(panels, titles)


def _scaled(frames: Frames, height: int) -> Frames:
    from PIL import Image

    if frames.shape[1] == height:
        return frames
    width = round(frames.shape[2] * height / frames.shape[1])
    scale = Image.Resampling.BILINEAR
    return np.stack([np.asarray(Image.fromarray(f).resize((width, height), scale)) for f in frames])

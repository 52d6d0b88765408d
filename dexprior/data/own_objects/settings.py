"""What a person says about an object of their own, and about what a hand is to do with it."""

from __future__ import annotations

from typing import Annotated, Literal

from dexprior.config import Ge, Gt, config

__all__ = ["OwnObjectConfig"]


@config
class OwnObjectConfig:
    """An object, a grasp of it, and where it is to end."""

    cloud: str | None = None
    """The object: a mesh (.obj, .stl, .ply) or points with normals (.ply, .npz with points and normals, .npy of six
    columns, .csv with x,y,z,nx,ny,nz), z up, in the base frame or placed with at=."""
    text: str | None = None
    """The sentence: what is to be done."""
    grasp: str = "two-finger"
    """two-finger, three-finger, power, or a file of a ContactConfiguration of the hand at the object as it lies."""
    goal: tuple[float, ...] | None = None
    """Where the object's middle is to end: x,y (at the height at which it lies), x,y,z, or x,y,z,qw,qx,qy,qz, whose
    quaternion turns it from how it lies [m, base frame]."""
    at: tuple[float, ...] | None = None
    """Stand the object on the table there: x,y or x,y,yaw [m, rad]; as it lies in the file when omitted."""
    units: Literal["m", "cm", "mm"] = "m"
    """Units of the file."""
    normals: Literal["given", "estimate"] = "given"
    """Estimate those of a point cloud, which must then show the object from all sides."""
    side: Literal["right", "left"] = "right"
    """Which hand; the prior must have seen it."""
    seconds: Annotated[float, Gt(0)] = 3.6
    """Length of the clip; the demonstrations of the suite have 2.8 to 4 s."""
    target_at: float | None = None
    """When the hand is about to let go at the goal [s]; after seven tenths of the clip when omitted."""
    camera: str = "front"
    """Camera of the suite (front, side), or a file of a Camera."""
    mark: bool = True
    """Where the object ends on the table, show the pick-and-place task's mark under it."""
    points: Annotated[int, Ge(16)] = 64
    """Points of the condition's cloud; 64 is what the suite's demonstrations have."""

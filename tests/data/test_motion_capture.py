"""Impacts from motion capture: what the simulator knows is found again, and every mistake has its message."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision import point_impulse_bound, relative_error
from dexprior.data.impacts import ELLIPSE_MASS, ELLIPSE_SEMI_AXES, ellipse_inertia, load_impacts, save_impacts
from dexprior.data.motion_capture import Body, Columns, MotionLayout, import_impacts, read_layout
from dexprior.data.simulated_impacts import simulate_drops, simulate_impacts
from dexprior.errors import BadInput, ConfigError, UnknownName

PHI = (0.25, 0.2, 0.002, 1.0)
INERTIA = ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS)
BODY = Body(shape="ellipse", semi_axes=ELLIPSE_SEMI_AXES, mass=ELLIPSE_MASS, inertia=INERTIA)
LAYOUT = MotionLayout(columns=Columns(height="z", trial="drop"), rate=250.0, body=BODY)


@pytest.fixture(scope="module")
def drops():
    return simulate_drops(3, 8, phi=PHI, noise=(5e-5, 5e-4))


@pytest.fixture
def write(tmp_path, drops):
    """Write the drops as CSV, each column passed through a function of (time, pose) where one is given."""
    time, pose = drops

    def make(header="drop,x,z,angle", rows=None):
        if rows is None:
            rows = [(d + 1, *pose[d, k]) for d in range(len(pose)) for k in range(len(time))]
        path = tmp_path / "drops.csv"
        path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
        return path

    return make


def test_the_impacts_are_those_that_were_simulated(write):
    impacts, counts = import_impacts(write(), LAYOUT)
    assert counts["impacts"] == len(impacts) >= 12
    expected, _ = simulate_impacts(
        impacts.pre, impacts.angle, np.tile(PHI, (len(impacts), 1)), semi_axes=ELLIPSE_SEMI_AXES, mass=ELLIPSE_MASS,
        inertia=INERTIA,
    )  # fmt: skip
    assert np.median(relative_error(expected, impacts)) < 0.08  # contacts turn and sink in while they last
    assert np.median(relative_error(point_impulse_bound(impacts), impacts)) < 0.05


def test_first_impacts_fall_from_where_they_were_dropped(write, drops):
    _, pose = drops
    impacts, _ = import_impacts(write(), LAYOUT)
    fall = pose[:, 0, 1] - impacts.tangent_row[: len(pose), 2].max()
    assert impacts.pre[:, 1].min() > -np.sqrt(2 * 9.81 * (pose[:, 0, 1].max()))
    assert impacts.pre[:, 1].min() < -np.sqrt(2 * 9.81 * fall.min())


def test_units_a_clock_and_quaternions_say_the_same(write, drops):
    time, pose = drops
    reference, _ = import_impacts(write(), LAYOUT)
    rows = []
    for d in range(len(pose)):
        for k in range(len(time)):
            x, z, angle = pose[d, k]
            quaternion = (np.cos(angle / 2), 0.0, -np.sin(angle / 2), 0.0)  # about -y: counter-clockwise in x, z
            rows.append((d + 1, time[k], 1e3 * x, 1e3 * z + 20.0, *quaternion))
    columns = Columns(height="z", trial="drop", time="t", angle=None, quaternion=("w", "i", "j", "k"))
    layout = dataclasses.replace(LAYOUT, columns=columns, rate=None, length="mm", ground=20.0)
    found, _ = import_impacts(write("drop,t,x,z,w,i,j,k", rows), layout)
    np.testing.assert_allclose(found.pre, reference.pre, atol=1e-6)
    np.testing.assert_allclose(found.post, reference.post, atol=1e-6)


def test_a_polygon_rejects_impacts_of_two_corners(tmp_path):
    """A square that falls flat touches with two corners; one that falls on a corner does not."""
    corner = 0.03
    body = Body(
        shape="polygon", vertices=((corner, corner), (-corner, corner), (-corner, -corner), (corner, -corner)),
        mass=0.1, inertia=6e-5,
    )  # fmt: skip
    time = np.arange(100) / 250.0
    rows = []
    for name, angle in (("flat", 0.0), ("corner", 0.7)):
        lowest = corner * (np.cos(angle) + np.sin(angle))
        speed = 1.0
        for t in time:
            s = t - 0.2
            if s < 0:
                height, turned = lowest - speed * s - 0.5 * 9.81 * s * s, angle
            else:
                # the impulse acts beside the mass centre: I omega = r_x m (0.5 + 1)
                r = corner * (np.sin(angle) - np.cos(angle))
                spin = 0.1 * r * 1.5 * speed / 6e-5 if name == "corner" else 0.0
                height, turned = lowest + 0.5 * speed * s - 0.5 * 9.81 * s * s, angle + spin * s
            if s < 0.06:
                rows.append((name, 0.0, height, turned))
    path = tmp_path / "square.csv"
    path.write_text("drop,x,z,angle\n" + "\n".join(",".join(map(str, row)) for row in rows))
    impacts, counts = import_impacts(path, dataclasses.replace(LAYOUT, body=body))
    assert counts == {"impacts": 1, "two corners at once": 1}
    np.testing.assert_allclose(impacts.pre, [[0.0, -1.0, 0.0]], atol=0.02)
    assert impacts.semi_axes is None


def test_pushes_and_rests_are_left_out_and_counted(write):
    _, counts = import_impacts(write(), LAYOUT)
    assert set(counts) - {"impacts"} <= {
        "too long", "too little flight", "no free flight", "fits do not meet the ground",
    }  # fmt: skip
    assert sum(counts.values()) > counts["impacts"]  # every drop ends by coming to rest


def test_saved_impacts_are_read_back(write, tmp_path):
    impacts, _ = import_impacts(write(), LAYOUT)
    again = load_impacts(save_impacts(impacts, tmp_path / "impacts.npz"))
    for field in dataclasses.fields(impacts):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(impacts, field.name))


# --- mistakes ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": "cm"}, "never flies for 8 frames.*in cm"),
        ({"rate": 120.0}, "the rate or the height column is wrong"),
        ({"ground": 5.0}, "never flies"),
    ],
)
def test_wrong_units_are_found_by_the_fall(write, change, message):
    with pytest.raises(BadInput, match=message):
        import_impacts(write(), dataclasses.replace(LAYOUT, **change))


def test_a_height_that_points_down_is_found(write, drops):
    time, pose = drops
    rows = [(d + 1, pose[d, k, 0], -pose[d, k, 1], pose[d, k, 2]) for d in range(len(pose)) for k in range(len(time))]
    with pytest.raises(BadInput, match=r"points down|never flies"):
        import_impacts(write(rows=rows), LAYOUT)


def test_a_mirrored_angle_is_found_by_the_torque(write, drops):
    time, pose = drops
    rows = [(d + 1, pose[d, k, 0], pose[d, k, 1], -pose[d, k, 2]) for d in range(len(pose)) for k in range(len(time))]
    with pytest.raises(BadInput, match="torque balance"):
        import_impacts(write(rows=rows), LAYOUT)


def test_mistakes_in_the_file_name_line_and_column(write, drops, tmp_path):
    time, pose = drops
    good = [[1, *pose[0, k]] for k in range(len(time))]
    with pytest.raises(UnknownName, match=r"height.*drop, x, z"):
        import_impacts(write(), dataclasses.replace(LAYOUT, columns=Columns(trial="drop")))
    with pytest.raises(UnknownName, match="trail"):
        import_impacts(write(), dataclasses.replace(LAYOUT, columns=Columns(height="z", trial="trail")))
    for bad, message in (("fast", "line 5: x is 'fast', not a number"), ("nan", "line 5: x is 'nan'; cut lost")):
        rows = [list(row) for row in good]
        rows[3][1] = bad
        with pytest.raises(BadInput, match=message):
            import_impacts(write(rows=rows), LAYOUT)
    with pytest.raises(BadInput, match="no rows"):
        import_impacts(write(rows=[]), LAYOUT)
    with pytest.raises(BadInput, match="no such file"):
        import_impacts(tmp_path / "absent.csv", LAYOUT)


def test_lost_frames_are_found_by_the_clock(write, drops):
    time, pose = drops
    rows = [(1, time[k], *pose[0, k]) for k in range(len(time)) if k not in (40, 41)]
    layout = dataclasses.replace(LAYOUT, columns=Columns(height="z", trial="drop", time="t"), rate=None)
    with pytest.raises(BadInput, match="clock is uneven: frame 40"):
        import_impacts(write("drop,t,x,z,angle", rows), layout)


def test_a_quaternion_of_the_wrong_order_is_found(write, drops):
    time, pose = drops
    rows = []
    for k in range(len(time)):
        x, z, angle = pose[0, k]
        rows.append((1, x, z, 0.0, -np.sin(angle / 2), 0.0, np.cos(angle / 2)))  # scalar last
    columns = Columns(height="z", trial="drop", angle=None, quaternion=("a", "b", "c", "d"))
    with pytest.raises(BadInput, match="scalar first"):
        import_impacts(write("drop,x,z,a,b,c,d", rows), dataclasses.replace(LAYOUT, columns=columns))


def test_layouts_are_checked(tmp_path):
    path = tmp_path / "layout.yaml"
    body = "body: {shape: ellipse, semi_axes: [0.1, 0.2], inertia: 1.0e-5}\n"
    path.write_text("rate: 250\n" + body)
    assert read_layout(path).rate == 250
    for text, error, message in (
        ("rate: 250\nfriction: 1\n" + body, ConfigError, "friction"),
        ("rate: -1\n" + body, ConfigError, "rate"),
        (body, BadInput, "columns.time or rate"),
        ("rate: 250\nbody: {shape: polygon, inertia: 1.0e-5}", BadInput, "body.vertices and body.inertia"),
        ("rate: [", BadInput, "not YAML"),
        ("[1, 2]", BadInput, "expected keys"),
        ("rate: 250\ncolumns: {angle: null}\n" + body, BadInput, "columns.angle or columns.quaternion"),
    ):
        path.write_text(text)
        with pytest.raises(error, match=message):
            read_layout(path)
    with pytest.raises(BadInput, match="no such file"):
        read_layout(tmp_path / "absent.yaml")

"""Laws of simulated impacts, with MuJoCo's default contact and with the wide family's low impedance."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.impacts import (
    ELLIPSE_MASS,
    ELLIPSE_SEMI_AXES,
    check_torque_balance,
    ellipse_contact,
    ellipse_inertia,
    kinetic_energy,
)
from dexprior.data.simulated_impacts import generate_impacts, simulate_impacts

INERTIA = ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS)


def simulate(pre, angle, phi, **options):
    return simulate_impacts(pre, angle, phi, semi_axes=ELLIPSE_SEMI_AXES, mass=ELLIPSE_MASS, inertia=INERTIA, **options)


@pytest.fixture
def strikes():
    """Sixty impacts: velocity before, angle, contact parameters."""
    rng = np.random.default_rng(3)
    n = 60
    angle = rng.uniform(0, 2 * np.pi, n)
    normal, tangent = ellipse_contact(angle, ELLIPSE_SEMI_AXES)
    spin, slide, speed = rng.uniform(-10, 10, n), rng.uniform(-1, 1, n), rng.uniform(1, 3, n)
    pre = np.stack([slide - tangent[:, 2] * spin, -speed - normal[:, 2] * spin, spin], axis=1)
    return pre, angle, np.tile([0.3, 0.2, 0.001, 1.0], (n, 1))


def test_a_frictionless_impact_keeps_the_tangential_momentum(strikes):
    pre, angle, phi = strikes
    post, _ = simulate(pre, angle, phi * [0.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(post[:, 0], pre[:, 0], atol=1e-4)  # MuJoCo keeps friction above 1e-5


def test_a_short_impact_is_one_impulse_at_the_contact_point(strikes):
    pre, angle, phi = strikes
    normal, tangent = ellipse_contact(angle, ELLIPSE_SEMI_AXES)
    post, separated = simulate(pre, angle, phi * [1.0, 1.0, 0.1, 1.0])
    change = post - pre
    torque = ELLIPSE_MASS * (normal[:, 2] * change[:, 1] + tangent[:, 2] * change[:, 0])
    assert separated.all()
    np.testing.assert_allclose(INERTIA * change[:, 2], torque, atol=0.02 * np.abs(torque).max())


def test_impacts_lose_energy_and_push_inside_the_friction_cone(strikes):
    pre, angle, phi = strikes
    post, _ = simulate(pre, angle, phi)
    before, after = (kinetic_energy(v, ELLIPSE_MASS, INERTIA) for v in (pre, post))
    change = post - pre
    assert (after <= before).all()
    assert (change[:, 1] > 0).all()
    assert (np.abs(change[:, 0]) <= phi[:, 0] * change[:, 1] * (1 + 1e-6)).all()


def test_mirroring_an_impact_mirrors_its_outcome(strikes):
    pre, angle, phi = strikes
    mirror = np.array([-1.0, 1.0, -1.0])
    post, _ = simulate(pre, angle, phi)
    mirrored, _ = simulate(pre * mirror, -angle, phi)
    np.testing.assert_allclose(mirrored, post * mirror, atol=1e-6)


def test_an_outcome_does_not_depend_on_threads_or_company(strikes):
    pre, angle, phi = strikes
    alone, _ = simulate(pre[:7], angle[:7], phi[:7])
    together, _ = simulate(pre, angle, phi, threads=2)
    np.testing.assert_array_equal(alone, together[:7])


def test_no_impacts_give_no_outcomes():
    post, separated = simulate(np.zeros((0, 3)), np.zeros(0), np.zeros((0, 4)))
    assert post.shape == (0, 3)
    assert separated.shape == (0,)


def test_generated_impacts_are_a_function_of_the_seed_and_say_what_they_are():
    one, same, other = generate_impacts(1, 20), generate_impacts(1, 20), generate_impacts(2, 20)
    np.testing.assert_array_equal(one.post, same.post)
    assert not np.array_equal(one.post, other.post)
    assert one.source == "generated"
    assert check_torque_balance(one) < 0.2


@pytest.mark.parametrize("impratio", [0.5, 5.0])
def test_a_low_impedance_contact_is_a_spring_a_damper_and_regularized_friction(impratio):
    """An ellipse that lands on its flat side: m x'' = -c_t x' up to Coulomb's limit, with c_t = impratio c_n."""
    zeta, tau = 0.3, 0.001
    pre = np.array([[0.02, -1.0, 0.0]])
    phi = np.array([[1.0, zeta, tau, impratio]])
    heavy = {"semi_axes": (0.035, 0.025), "mass": 0.04, "inertia": 1e3}  # that much inertia keeps it from turning
    post, separated = simulate_impacts(pre, np.zeros(1), phi, impedance=0.005, resolution=400, **heavy)
    step, x, u = (
        1e-4,
        np.zeros(2),
        np.array([-1.0, 0.02]),
    )  # time in units of zeta tau
    for _ in range(200_000):
        normal = max(-x[0] - 2 * zeta * u[0], 0.0)
        tangent = np.clip(-2 * zeta * impratio * u[1], -normal, normal)
        u = u + step * np.array([normal, tangent])
        x = x + step * u
        if normal == 0.0 and u[0] > 0:
            break
    assert separated.all()
    np.testing.assert_allclose(post[0, [1, 0]], u, atol=2e-3)


def test_a_frictionless_impact_ends_alike_at_every_impedance():
    """`contact_solref` makes up for what MuJoCo's regularization takes, whatever the contact's mobility."""
    n = 40
    rng = np.random.default_rng(7)
    angle, pre = rng.uniform(0, 2 * np.pi, n), np.tile([0.0, -2.0, 0.0], (n, 1))
    phi = np.tile([1e-6, 0.3, 0.001, 1.0], (n, 1))
    body = {"semi_axes": (0.035, 0.025), "mass": 0.04, "inertia": 1.5e-5}
    impedances = (0.005, 0.1, 0.6, 0.95)
    ends = [simulate_impacts(pre, angle, phi, impedance=d, resolution=100, **body)[0] for d in impedances]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], atol=5e-3 * np.abs(ends[0]).max())
    assert np.abs(ends[0][:, 2]).max() > 10.0  # off-centre ones among them, where A_nn differs most

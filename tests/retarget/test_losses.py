"""Each loss is least where its wish is fulfilled, and grows with the one thing that it forbids."""

from __future__ import annotations

import pytest
import torch

from dexprior.retarget.losses import (
    GRIPPER_SPEED,
    clearance_loss,
    contact_logit,
    contact_timing_loss,
    follow_gripper,
    force_profile_loss,
    grip_force,
    limit_loss,
    position_loss,
    smoothness_loss,
)
from dexprior.worlds.arm import PAD_STIFFNESS

DT, T, WIDTH = 1 / 24, 24, 0.036
LIMITS = {"dt": DT, "max_speed": 0.5, "max_opening": 0.08, "floor": 0.011}


def _touching(onset: int) -> torch.Tensor:
    return (torch.arange(T) >= onset).float()[None]


def _closing(onset: int) -> torch.Tensor:
    """An opening that reaches the object's width at a frame."""
    return torch.where(torch.arange(T) < onset, WIDTH + 0.01, WIDTH - 0.01)[None]


# --- position -----------------------------------------------------------------------------------------------------


def test_position_wants_the_pinch_before_contact_and_the_hold_during_it():
    pinch, held = torch.rand(2, T, 3), torch.rand(2, T, 3)
    contact = _touching(10).expand(2, -1)
    perfect = torch.where(contact[..., None] > 0, held, pinch)
    assert position_loss(perfect, pinch, held, contact) == 0
    aside = torch.tensor([0.01, 0.0, 0.0])
    assert position_loss(perfect + aside, pinch, held, contact) == pytest.approx(1.0, rel=1e-3)  # cm2
    assert position_loss(pinch, pinch, held, contact) > 1


# --- clearance ----------------------------------------------------------------------------------------------------


def test_clearance_forbids_open_pads_beside_the_object_only():
    held = torch.zeros(1, T, 3)
    free = torch.zeros(1, T)
    above = torch.tensor([0.03, 0.0, 0.04]).expand(1, T, 3)
    beside = torch.tensor([0.03, 0.0, 0.0]).expand(1, T, 3)
    astride = torch.zeros(1, T, 3)
    assert clearance_loss(above, held, free) == 0
    assert clearance_loss(astride, held, free) == 0
    assert clearance_loss(beside, held, free) == pytest.approx(49.0, rel=1e-3)  # 35 mm, in (5 mm)2
    lower = clearance_loss(beside + torch.tensor([0.0, 0.0, 0.02]), held, free)
    assert 0 < lower < clearance_loss(beside, held, free)
    assert clearance_loss(beside, held, 1 - free) == 0  # while it is held, nothing is asked


# --- smoothness ---------------------------------------------------------------------------------------------------


def test_smoothness_is_mean_squared_acceleration():
    t = DT * torch.arange(T, dtype=torch.float64)[None, :, None]
    assert smoothness_loss(3.0 + 0.4 * t, DT) == pytest.approx(0.0, abs=1e-9)
    assert smoothness_loss(0.5 * 3.0 * t**2, DT) == pytest.approx(9.0)  # 3 m/s2


# --- timing -------------------------------------------------------------------------------------------------------


def test_timing_is_least_at_the_humans_onset():
    losses = [float(contact_timing_loss(contact_logit(_closing(k), WIDTH), _touching(10))) for k in range(4, 17)]
    assert losses.index(min(losses)) == 10 - 4
    assert min(losses) < 0.01
    early, late = losses[: 10 - 4 + 1], losses[10 - 4 :]
    assert early == sorted(early, reverse=True)
    assert late == sorted(late)  # the further off, the dearer


def test_contact_is_even_odds_when_the_pads_are_as_wide_as_the_object():
    logit = contact_logit(torch.tensor([[WIDTH + 0.01, WIDTH, WIDTH - 0.01]]), WIDTH)[0]
    assert logit[1] == 0
    assert logit[0] < -5
    assert logit[2] > 5


# --- force --------------------------------------------------------------------------------------------------------


def test_pads_press_like_springs():
    opening = torch.tensor([[WIDTH + 0.01, WIDTH - 0.004, WIDTH - 0.008]])
    force = grip_force(opening, WIDTH)[0]
    assert force[0] == pytest.approx(0.0, abs=1e-3)
    assert force[1] == pytest.approx(PAD_STIFFNESS * 0.002, rel=1e-2)
    assert force[2] == pytest.approx(2 * float(force[1]), rel=1e-2)


def test_force_counts_while_the_human_touches_and_relative_to_the_humans():
    human = 4.0 * _touching(10)
    assert force_profile_loss(human, human, _touching(10)) == 0
    assert force_profile_loss(0.5 * human, human, _touching(10)) == pytest.approx(0.25)
    assert force_profile_loss(0.5 * 10 * human, 10 * human, _touching(10)) == pytest.approx(0.25)
    squeezing_early = human + 9.0 * (1 - _touching(10))
    assert force_profile_loss(squeezing_early, human, _touching(10)) == 0
    assert torch.isfinite(force_profile_loss(human, 0 * human, 0 * human))  # nobody touches


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("speed", lambda tool, opening: (tool * torch.tensor([4.0, 1, 1]), opening)),
        ("floor", lambda tool, opening: (tool - torch.tensor([0, 0, 0.095]), opening)),
        ("too wide", lambda tool, opening: (tool, opening + 0.05)),
        ("below zero", lambda tool, opening: (tool, opening - 0.06)),
    ],
)
def test_each_limit_counts_by_itself(name, change):
    t = DT * torch.arange(T, dtype=torch.float32)
    tool = torch.stack([0.4 * t, 0 * t, 0 * t + 0.1], -1)[None]
    opening = torch.full((1, T), 0.05)
    assert limit_loss(tool, opening, **LIMITS) == 0
    assert limit_loss(*change(tool, opening), **LIMITS) > 0, name


# --- the gripper's own speed --------------------------------------------------------------------------------------


def test_the_gripper_follows_no_faster_than_it_can():
    jump = torch.cat([torch.full((1, 4), 0.08), torch.zeros(1, 20)], 1)
    reached = follow_gripper(jump, DT)
    assert reached.diff(dim=1).abs().max() <= GRIPPER_SPEED * DT + 1e-9
    assert reached[0, 4] > 0.06  # it has hardly started
    assert reached[0, -1] < 0.002  # and arrives
    assert (reached.diff(dim=1) <= 1e-9).all()  # without overshoot


def test_a_slow_command_is_followed_closely():
    slow = torch.linspace(0.08, 0.04, 200)[None]
    assert (follow_gripper(slow, DT) - slow).abs().max() < 1e-3


# --- gradients ----------------------------------------------------------------------------------------------------


def test_gradients_flow_through_a_gripper_at_full_speed():
    """An early command still feels a late contact: that is what teaches it to start earlier.

    The jump asks for 44 mm in a frame of 12.5 mm, so the gripper is saturated at every frame in between.
    """
    commanded = torch.where(torch.arange(T) < 10, 0.08, 0.03)[None].requires_grad_()
    loss = contact_timing_loss(contact_logit(follow_gripper(commanded, DT), WIDTH), _touching(10))
    loss.backward()
    assert commanded.grad[0, 10] > 1e-4  # closing further at the jump would help
    assert commanded.grad[0, 9] > 0  # and closing earlier, too


def test_descending_the_timing_loss_starts_the_closing_earlier():
    commanded = torch.where(torch.arange(T) < 10, 0.08, 0.03)[None].clone().requires_grad_()
    human = _touching(10)
    optimizer = torch.optim.Adam([commanded], lr=2e-3)

    def onset() -> int:
        return int((follow_gripper(commanded, DT)[0] < WIDTH).float().argmax())

    assert onset() > 10
    for _ in range(200):
        optimizer.zero_grad()
        contact_timing_loss(contact_logit(follow_gripper(commanded, DT), WIDTH), human).backward()
        optimizer.step()
    assert abs(onset() - 10) <= 1


def test_every_loss_passes_gradients():
    torch.manual_seed(0)
    tool = torch.randn(2, T, 3, requires_grad=True)
    opening = (0.04 + 0.05 * torch.randn(2, T)).requires_grad_()
    held, human = torch.randn(2, T, 3), _touching(10).expand(2, -1)
    total = (
        position_loss(tool, held + 1, held, human)
        + clearance_loss(tool, held, human)
        + smoothness_loss(tool, DT)
        + contact_timing_loss(contact_logit(opening, WIDTH), human)
        + force_profile_loss(grip_force(opening, WIDTH), 4 * human, human)
        + limit_loss(tool, opening, **LIMITS)
    )
    total.backward()
    assert torch.isfinite(tool.grad).all()
    assert torch.isfinite(opening.grad).all()
    assert (tool.grad.abs().sum(-1) > 0).all()
    assert (opening.grad != 0).float().mean() > 0.9

"""One world's particle cloth, advanced by a control period: position-based dynamics in compiled scalars.

Small steps of extended position-based dynamics (Macklin, Müller, Chentanez 2016; Macklin et al. 2019): gravity as a
force, the bending of hinges as implicit impulses, stretching and shearing as compliant constraints with Rayleigh
damping, and contacts as projections whose tangential part obeys Coulomb's law on the accumulated normal part. Importing
this module needs the extra `compiled`.

Shapes: v vertices, e edges, h hinges, t triangles, s samples, b boxes, g grippers of two boxes each (the last 2 g).
"""

from __future__ import annotations

import math

import numpy as np

from dexprior.extras import require

__all__ = ["BURST", "CONTACT_PAIRS", "PINCHED", "advance"]

CONTACT_PAIRS = 12
"""How many pairs of a vertex and a triangle are remembered, for each vertex on average."""
BURST = 0.1
"""Speed at which old penetrations come apart [m/s]."""
PINCHED = 2.5
"""Pads closer than so many radii of the fabric pinch it; at 2 they touch both sides."""

_jit = require("numba", purpose="the particle cloth").njit(nogil=True, cache=True, fastmath=False, error_model="numpy")


@_jit
def _stretch(x, before, w, edges, length, compliance, damping, multiplier, dt):
    """Distance constraints of all edges, once (Macklin et al. 2016, eq. 26)."""
    gamma = damping / dt
    for k in range(edges.shape[0]):
        i, j = edges[k, 0], edges[k, 1]
        dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        d = math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-12
        nx, ny, nz = dx / d, dy / d, dz / d
        moved = (
            nx * (dx - before[i, 0] + before[j, 0])
            + ny * (dy - before[i, 1] + before[j, 1])
            + nz * (dz - before[i, 2] + before[j, 2])
        )
        alpha = compliance[k] / (dt * dt)
        step = -(d - length[k] + alpha * multiplier[k] + gamma * moved) / ((1.0 + gamma) * (w[i] + w[j]) + alpha)
        multiplier[k] += step
        a, b = w[i] * step, w[j] * step
        x[i, 0] += a * nx
        x[i, 1] += a * ny
        x[i, 2] += a * nz
        x[j, 0] -= b * nx
        x[j, 1] -= b * ny
        x[j, 2] -= b * nz


@_jit
def _bend(x, v, w, hinges, coefficients, stiffness, damping, dt):
    """Impulses of the quadratic bending energy k/2 |sum_i c_i x_i|^2, and of its Rayleigh damping, onto velocities.

    Hinge by hinge, each implicit in its own bend at the end of the step, so that no stiffness bursts.
    """
    lead = damping + dt
    for k in range(hinges.shape[0]):
        mobility = 0.0
        for m in range(4):
            mobility += w[hinges[k, m]] * coefficients[k, m] ** 2
        push = dt * stiffness[k] / (1.0 + dt * lead * stiffness[k] * mobility)
        for axis in range(3):
            bent = 0.0
            for m in range(4):
                i = hinges[k, m]
                bent += coefficients[k, m] * (x[i, axis] + lead * v[i, axis])
            for m in range(4):
                i = hinges[k, m]
                v[i, axis] -= w[i] * coefficients[k, m] * push * bent


@_jit
def _touch(x, start, sample, shares, nx, ny, nz, sx, sy, sz, depth, friction, slack):
    """Push a sample out of a surface that moved by s within this step, and hold it by friction (Coulomb's law).

    What this step drove in comes out at once, older depth by `slack` [m] at most, so that nothing bursts.
    """
    i, j = sample[0], sample[1]
    dx = 0.5 * (x[i, 0] - start[i, 0] + x[j, 0] - start[j, 0]) - sx
    dy = 0.5 * (x[i, 1] - start[i, 1] + x[j, 1] - start[j, 1]) - sy
    dz = 0.5 * (x[i, 2] - start[i, 2] + x[j, 2] - start[j, 2]) - sz
    along = dx * nx + dy * ny + dz * nz
    push = min(depth, max(-along, 0.0) + slack)
    dx, dy, dz = dx - along * nx, dy - along * ny, dz - along * nz
    part = min(1.0, friction * push / (math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-12))
    _move(x, sample, shares, push * nx - part * dx, push * ny - part * dy, push * nz - part * dz)


@_jit
def _move(x, sample, shares, dx, dy, dz):
    for k in range(2):
        i, share = sample[k], shares[k]
        x[i, 0] += share * dx
        x[i, 1] += share * dy
        x[i, 2] += share * dz


@_jit
def _on_table(x, start, samples, shares, radius, friction, slack):
    for k in range(samples.shape[0]):
        depth = radius - 0.5 * (x[samples[k, 0], 2] + x[samples[k, 1], 2])
        if depth > 0.0:
            _touch(x, start, samples[k], shares[k], 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, depth, friction, slack)


@_jit
def _on_box(
    x, start, samples, shares, skip, centre, rotation, half, old_centre, old_rotation, radius, friction, slack
):  # fmt: skip
    """Keep samples out of a box that is rounded by `radius`; the box moves from its old pose within this step."""
    reach = radius + math.sqrt(half[0] ** 2 + half[1] ** 2 + half[2] ** 2)
    p, out, q = np.empty(3), np.empty(3), np.empty(3)
    for k in range(samples.shape[0]):
        if skip[k]:
            continue
        i, j = samples[k, 0], samples[k, 1]
        dx = 0.5 * (x[i, 0] + x[j, 0]) - centre[0]
        dy = 0.5 * (x[i, 1] + x[j, 1]) - centre[1]
        dz = 0.5 * (x[i, 2] + x[j, 2]) - centre[2]
        if dx * dx + dy * dy + dz * dz > reach * reach:
            continue
        apart = 0.0
        for a in range(3):
            p[a] = rotation[0, a] * dx + rotation[1, a] * dy + rotation[2, a] * dz
            out[a] = p[a] - min(max(p[a], -half[a]), half[a])
            apart += out[a] * out[a]
        if apart > radius * radius:
            continue
        if apart > 1e-18:
            apart = math.sqrt(apart)
            depth = radius - apart
            for a in range(3):
                out[a] /= apart
        else:
            axis, depth = 0, 1e9
            for a in range(3):
                room = half[a] + radius - abs(p[a])
                if room < depth:
                    axis, depth = a, room
            for a in range(3):
                out[a] = 0.0
            out[axis] = 1.0 if p[axis] >= 0.0 else -1.0
        n0 = rotation[0, 0] * out[0] + rotation[0, 1] * out[1] + rotation[0, 2] * out[2]
        n1 = rotation[1, 0] * out[0] + rotation[1, 1] * out[1] + rotation[1, 2] * out[2]
        n2 = rotation[2, 0] * out[0] + rotation[2, 1] * out[1] + rotation[2, 2] * out[2]
        for a in range(3):  # where the box's matter at this place came from
            q[a] = old_centre[a] + old_rotation[a, 0] * p[0] + old_rotation[a, 1] * p[1] + old_rotation[a, 2] * p[2]
        sx, sy, sz = dx + centre[0] - q[0], dy + centre[1] - q[1], dz + centre[2] - q[2]
        _touch(x, start, samples[k], shares[k], n0, n1, n2, sx, sy, sz, depth, friction, slack)


@_jit
def _in_pinch(x, samples, skip, middle, rotation, half, gap, most):
    """Mark the samples between two pads, and count them; `rotation`'s y axis is the one that pads close along."""
    count = 0
    if gap > most:
        return count
    for k in range(samples.shape[0]):
        i, j = samples[k, 0], samples[k, 1]
        dx = 0.5 * (x[i, 0] + x[j, 0]) - middle[0]
        dy = 0.5 * (x[i, 1] + x[j, 1]) - middle[1]
        dz = 0.5 * (x[i, 2] + x[j, 2]) - middle[2]
        px = rotation[0, 0] * dx + rotation[1, 0] * dy + rotation[2, 0] * dz
        py = rotation[0, 1] * dx + rotation[1, 1] * dy + rotation[2, 1] * dz
        pz = rotation[0, 2] * dx + rotation[1, 2] * dy + rotation[2, 2] * dz
        if abs(px) < half[0] and abs(pz) < half[2] and abs(py) < 0.5 * gap + half[1]:
            skip[k] = True
            count += 1
    return count


@_jit
def _pinch(
    x, start, samples, shares, skip, w, middle, rotation, old_middle, old_rotation, allowed, slack, pull
):  # fmt: skip
    """Carry pinched samples with the pads, as far as friction allows: `allowed` is its impulse times dt [kg m].

    `pull` [kg m] adds up what it took.
    """
    p, q = np.empty(3), np.empty(3)
    for k in range(samples.shape[0]):
        if not skip[k]:
            continue
        i, j = samples[k, 0], samples[k, 1]
        for a in range(3):
            q[a] = 0.5 * (start[i, a] + start[j, a]) - old_middle[a]
        for a in range(3):
            p[a] = old_rotation[0, a] * q[0] + old_rotation[1, a] * q[1] + old_rotation[2, a] * q[2]
        p[1] -= min(max(p[1], -slack), slack)  # between the pads there is one place across
        for a in range(3):
            q[a] = middle[a] + rotation[a, 0] * p[0] + rotation[a, 1] * p[1] + rotation[a, 2] * p[2]
            q[a] -= 0.5 * (x[i, a] + x[j, a])
        across = q[0] * rotation[0, 1] + q[1] * rotation[1, 1] + q[2] * rotation[2, 1]
        length = 0.0
        for a in range(3):
            p[a] = q[a] - across * rotation[a, 1]
            length += p[a] * p[a]
        mobility = w[i] if i == j else 0.25 * (w[i] + w[j])
        part = min(1.0, allowed * mobility / (math.sqrt(length) + 1e-12))
        for a in range(3):
            q[a] = part * p[a] + across * rotation[a, 1]
            pull[a] -= q[a] / mobility
        _move(x, samples[k], shares[k], q[0], q[1], q[2])


@_jit
def _find_pairs(x, triangles, neighbours, reach, pairs, sides):
    """Vertices near triangles that they are no neighbours of, and on which side; returns how many."""
    count = 0
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        cx, cy, cz = (
            (x[a, 0] + x[b, 0] + x[c, 0]) / 3,
            (x[a, 1] + x[b, 1] + x[c, 1]) / 3,
            (x[a, 2] + x[b, 2] + x[c, 2]) / 3,
        )
        n0 = (x[b, 1] - x[a, 1]) * (x[c, 2] - x[a, 2]) - (x[b, 2] - x[a, 2]) * (x[c, 1] - x[a, 1])
        n1 = (x[b, 2] - x[a, 2]) * (x[c, 0] - x[a, 0]) - (x[b, 0] - x[a, 0]) * (x[c, 2] - x[a, 2])
        n2 = (x[b, 0] - x[a, 0]) * (x[c, 1] - x[a, 1]) - (x[b, 1] - x[a, 1]) * (x[c, 0] - x[a, 0])
        for i in range(x.shape[0]):
            dz = x[i, 2] - cz
            if dz > reach or dz < -reach:
                continue
            dx, dy = x[i, 0] - cx, x[i, 1] - cy
            if dx * dx + dy * dy + dz * dz > reach * reach or neighbours[i, a] or neighbours[i, b] or neighbours[i, c]:
                continue
            if count == pairs.shape[0]:
                return count
            pairs[count, 0], pairs[count, 1] = i, t
            sides[count] = 1.0 if dx * n0 + dy * n1 + dz * n2 >= 0.0 else -1.0
            count += 1
    return count


@_jit
def _layers(x, start, w, triangles, pairs, sides, count, thickness, friction, slack):
    """Keep vertices at a layer's distance from the triangles near them, with friction between the layers."""
    for k in range(count):
        i, t = pairs[k, 0], pairs[k, 1]
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        u0, u1, u2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        v0, v1, v2 = x[c, 0] - x[a, 0], x[c, 1] - x[a, 1], x[c, 2] - x[a, 2]
        n0, n1, n2 = u1 * v2 - u2 * v1, u2 * v0 - u0 * v2, u0 * v1 - u1 * v0
        area = math.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
        if area < 1e-12:
            continue
        n0, n1, n2 = sides[k] * n0 / area, sides[k] * n1 / area, sides[k] * n2 / area
        d0, d1, d2 = x[i, 0] - x[a, 0], x[i, 1] - x[a, 1], x[i, 2] - x[a, 2]
        height = d0 * n0 + d1 * n1 + d2 * n2
        depth = thickness - height
        if depth <= 0.0 or depth > 2.0 * thickness:
            continue
        uu, uv, vv = u0 * u0 + u1 * u1 + u2 * u2, u0 * v0 + u1 * v1 + u2 * v2, v0 * v0 + v1 * v1 + v2 * v2
        du, dv = d0 * u0 + d1 * u1 + d2 * u2, d0 * v0 + d1 * v1 + d2 * v2
        det = uu * vv - uv * uv
        if det <= 0.0:
            continue
        beta, gamma = (vv * du - uv * dv) / det, (uu * dv - uv * du) / det
        alpha = 1.0 - beta - gamma
        if alpha < -1e-3 or beta < -1e-3 or gamma < -1e-3:
            continue
        weight = w[i] + alpha * alpha * w[a] + beta * beta * w[b] + gamma * gamma * w[c]
        # motion of the vertex against the triangle since the step began
        m0 = x[i, 0] - start[i, 0] - alpha * (x[a, 0] - start[a, 0]) - beta * (x[b, 0] - start[b, 0])
        m1 = x[i, 1] - start[i, 1] - alpha * (x[a, 1] - start[a, 1]) - beta * (x[b, 1] - start[b, 1])
        m2 = x[i, 2] - start[i, 2] - alpha * (x[a, 2] - start[a, 2]) - beta * (x[b, 2] - start[b, 2])
        m0 -= gamma * (x[c, 0] - start[c, 0])
        m1 -= gamma * (x[c, 1] - start[c, 1])
        m2 -= gamma * (x[c, 2] - start[c, 2])
        along = m0 * n0 + m1 * n1 + m2 * n2
        m0, m1, m2 = m0 - along * n0, m1 - along * n1, m2 - along * n2
        push = min(depth, max(-along, 0.0) + slack)  # as in `_touch`
        part = min(1.0, friction * push / (math.sqrt(m0 * m0 + m1 * m1 + m2 * m2) + 1e-12)) / weight
        push /= weight
        s0, s1, s2 = push * n0 - part * m0, push * n1 - part * m1, push * n2 - part * m2
        x[i, 0] += w[i] * s0
        x[i, 1] += w[i] * s1
        x[i, 2] += w[i] * s2
        x[a, 0] -= alpha * w[a] * s0
        x[a, 1] -= alpha * w[a] * s1
        x[a, 2] -= alpha * w[a] * s2
        x[b, 0] -= beta * w[b] * s0
        x[b, 1] -= beta * w[b] * s1
        x[b, 2] -= beta * w[b] * s2
        x[c, 0] -= gamma * w[c] * s0
        x[c, 1] -= gamma * w[c] * s1
        x[c, 2] -= gamma * w[c] * s2


@_jit
def _between(a_centre, a_rotation, b_centre, b_rotation, share, centre, rotation):
    """A pose between two that are near each other: linear, with the rotation's columns made orthonormal again."""
    for a in range(3):
        centre[a] = a_centre[a] + share * (b_centre[a] - a_centre[a])
        for k in range(3):
            rotation[a, k] = a_rotation[a, k] + share * (b_rotation[a, k] - a_rotation[a, k])
    n = math.sqrt(rotation[0, 0] ** 2 + rotation[1, 0] ** 2 + rotation[2, 0] ** 2)
    for a in range(3):
        rotation[a, 0] /= n
    dot = rotation[0, 0] * rotation[0, 1] + rotation[1, 0] * rotation[1, 1] + rotation[2, 0] * rotation[2, 1]
    for a in range(3):
        rotation[a, 1] -= dot * rotation[a, 0]
    n = math.sqrt(rotation[0, 1] ** 2 + rotation[1, 1] ** 2 + rotation[2, 1] ** 2)
    for a in range(3):
        rotation[a, 1] /= n
    rotation[0, 2] = rotation[1, 0] * rotation[2, 1] - rotation[2, 0] * rotation[1, 1]
    rotation[1, 2] = rotation[2, 0] * rotation[0, 1] - rotation[0, 0] * rotation[2, 1]
    rotation[2, 2] = rotation[0, 0] * rotation[1, 1] - rotation[1, 0] * rotation[0, 1]


@_jit
def advance(
    ids, x, v, w, gravity, edges, length, compliance, hinges, coefficients, bending, triangles, neighbours,
    samples, shares, damping, cloth_friction, pad_friction, old_boxes, old_turns, new_boxes, new_turns, half, force,
    pulls, counts, radius, dt, substeps, iterations,
):  # fmt: skip
    """Advance the cloths of some worlds, in place.

    Args:
        ids: (m,) worlds.
        x, v: (n, v, 3), positions and velocities [m, m/s].
        w: (n, v), inverse masses [1/kg].
        gravity: (n, 3) [m/s2].
        edges, length, compliance: (e, 2), (e,) [m], (n, e) [m/N].
        hinges, coefficients, bending: (h, 4), (h, 4), (n, h) [N/m].
        triangles: (t, 3).
        neighbours: (v, v), whether two vertices are too near in the fabric to be layers of each other.
        samples: (s, 2), what touches table, board and pads: points midway between two vertices, or a vertex (twice).
        shares: (s, 2), how far each of the two goes when a sample goes by one.
        damping: (n,), the time by which force leads strain [s].
        cloth_friction, pad_friction: (n,).
        old_boxes, old_turns, new_boxes, new_turns: (n, b, 3), (n, b, 3, 3), where boxes are before and afterwards.
        half: (b, 3) [m].
        force: (n, g), with which pads press on each other [N].
        pulls: (n, g, 3), filled with the cloth's mean force on each gripper [N].
        counts: (n, g), filled with how many samples each gripper pinches at the end.
        radius: half the thickness of the cloth in contact [m].
        dt, substeps: small step [s], and how many.
        iterations: over constraints, in each.
    """
    nv, nb, ng, ns = x.shape[1], half.shape[0], force.shape[1], samples.shape[0]
    first = nb - 2 * ng  # of the pads among the boxes
    start, multiplier = np.empty((nv, 3)), np.empty(edges.shape[0])
    pairs, sides = np.empty((CONTACT_PAIRS * nv, 2), np.int64), np.empty(CONTACT_PAIRS * nv)
    old_c, new_c, old_r, new_r = np.empty((nb, 3)), np.empty((nb, 3)), np.empty((nb, 3, 3)), np.empty((nb, 3, 3))
    skip, pinched = np.zeros((ng, ns), np.bool_), np.zeros(ns, np.bool_)
    middle, old_middle = np.empty((ng, 3)), np.empty((ng, 3))
    slack, longest = BURST * dt, length.max()
    for m in range(ids.shape[0]):
        n = ids[m]
        X, V = x[n], v[n]
        pulls[n] = 0.0
        count = 0
        for step in range(substeps):
            for k in range(nb):
                a, b = step / substeps, (step + 1) / substeps
                _between(old_boxes[n, k], old_turns[n, k], new_boxes[n, k], new_turns[n, k], a, old_c[k], old_r[k])
                _between(old_boxes[n, k], old_turns[n, k], new_boxes[n, k], new_turns[n, k], b, new_c[k], new_r[k])
            if step % 4 == 0:  # meanwhile a layer comes nearer by 8 mm at 1 m/s
                count = _find_pairs(X, triangles, neighbours, longest + 2.0 * radius + 4.0 * dt, pairs, sides)
            _bend(X, V, w[n], hinges, coefficients, bending[n], damping[n], dt)
            for i in range(nv):
                for a in range(3):
                    start[i, a] = X[i, a]
                    V[i, a] += dt * gravity[n, a]
                    X[i, a] += dt * V[i, a]
            multiplier[:] = 0.0
            pinched[:] = False
            for g in range(ng):
                skip[g] = False
                left, right = first + 2 * g, first + 2 * g + 1
                gap = 0.0
                for a in range(3):
                    gap += (new_c[left, a] - new_c[right, a]) * new_r[left, a, 1]
                    middle[g, a] = 0.5 * (new_c[left, a] + new_c[right, a])
                    old_middle[g, a] = 0.5 * (old_c[left, a] + old_c[right, a])
                gap = abs(gap) - half[left, 1] - half[right, 1]
                counts[n, g] = _in_pinch(X, samples, skip[g], middle[g], new_r[left], half[left], gap, PINCHED * radius)
                for k in range(ns):
                    pinched[k] |= skip[g, k]
            for _ in range(iterations):
                _stretch(X, start, w[n], edges, length, compliance[n], damping[n], multiplier, dt)
                _layers(X, start, w[n], triangles, pairs, sides, count, 2.0 * radius, cloth_friction[n], slack)
                _on_table(X, start, samples, shares, radius, cloth_friction[n], slack)
                for k in range(nb):
                    friction = cloth_friction[n] if k < first else pad_friction[n]
                    _on_box(
                        X, start, samples, shares, pinched, new_c[k], new_r[k], half[k], old_c[k], old_r[k], radius,
                        friction, slack,
                    )  # fmt: skip
                for g in range(ng):
                    if counts[n, g] > 0:
                        allowed = 2.0 * pad_friction[n] * force[n, g] / counts[n, g] / iterations * dt * dt
                        left = first + 2 * g
                        _pinch(
                            X, start, samples, shares, skip[g], w[n], middle[g], new_r[left], old_middle[g],
                            old_r[left], allowed, slack, pulls[n, g],
                        )  # fmt: skip
            for i in range(nv):
                for a in range(3):
                    V[i, a] = (X[i, a] - start[i, a]) / dt
        for g in range(ng):
            for a in range(3):
                pulls[n, g, a] /= substeps * dt * dt

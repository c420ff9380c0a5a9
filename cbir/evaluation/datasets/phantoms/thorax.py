"""Chest from the back and from the side, and mammograms of the right breast, the chest wall on the right."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.shapes import (
    OUTLINES,
    Points,
    ellipse,
    grown,
    lowered,
    mirror,
    open_curve,
    resample,
    translate,
    tube,
)

# Tables of coordinates, a shape on a line or two.
# fmt: off



def ribs(c: Canvas, paths: Sequence[ArrayLike], width: float, amount: float) -> None:
    """Draw curved bands of bone; neighbours do not overlap and are drawn together.

    Parameters
    ----------
    c : Canvas
        Canvas to draw on.
    paths : sequence of (n, 2) array_like
        Control points of the axes.
    width, amount : float
        Width in units, and attenuation.
    """
    c.bone(*(tube(path, width / 2) for path in paths), amount=amount, radius=width / 2, cortex=width / 6,
        inner=0.5)


def _step(degrees: float, far: float) -> Points:
    return far * np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def _branches(c: Canvas, root: tuple[float, float], heading: float, length: float, width: float,
    depth: int) -> list[tuple[Points, float]]:
    """Return a vessel and its branches as strokes, thinner and shorter each time."""
    bend = c.person.normal(0, 14)
    a = np.array(root)
    b = a + _step(heading, length / 2)
    end = b + _step(heading + bend, length / 2)
    strokes = [(np.array([a, b, end]), width)]
    if depth:
        for side in (-1, 1):
            turn = side * c.person.uniform(16, 38)
            strokes += _branches(c, tuple(end), heading + bend + turn, length * c.person.uniform(0.62, 0.85),
                width * 0.68, depth - 1)
    return strokes


def chest_pa(c: Canvas) -> None:
    o = OUTLINES["chest_pa"]
    breath, wide = c.pose.normal(0, 1.5), 0.5 + 0.5 * c.body.build
    h = c.person.normal(1.0, 0.07) + (0.12 if c.body.age > 65 and c.person.random() < 0.4 else 0)  # heart
    c.look((0, -1), c.pose.uniform(0.98, 1.08))
    c.soft(grown(o["skin"], wide), amount=1.35, edge=22, blur=0.5)
    floor = 20 + breath

    c.soft(lowered(o["right_lung"], floor), lowered(o["left_lung"], floor), amount=-0.95, edge=9, blur=0.45)
    c.soft([(-2, -14), (-5, -8), (-7.6 * h, 2), (-9.4 * h, 10), (-8.6 * h, floor - 1), (-4, floor + 2),
        (8, floor + 2.5), (17 * h, floor + 1), (20.6 * h, floor - 3), (18.6 * h, 9), (14 * h, 1), (9.2, -6),
        (6.8, -12), (4, -16)], [(0, -21), (4.4, -28), (5.4, -20), (4.8, -8), (3.4, floor + 1),
        (-3.4, floor + 1), (-5.4, -8), (-5.6, -20), (-4.4, -28)], amount=0.8, edge=7.5, blur=0.5)
    c.soft(ellipse(5.4, -15.5, 4.4, 4.6), tube([(5, -15), (6.4, 0), (4, 22)], 2.2), amount=0.16, edge=3.5,
        blur=0.5)  # aorta

    c.soft(ellipse(-8, -2, 3.6, 6, 20), ellipse(9.6, -4, 3.4, 5, -25), amount=0.26, edge=4, blur=1.2)  # hila
    hila = ((-8, -2, (150, 178, 205, 240, 118, 95)), (9.5, -4, (30, 2, -25, -62, 62, 84)))
    vessels = [branch for x, y, angles in hila for angle in angles
        for branch in _branches(c, (x, y), angle + c.person.normal(0, 6), 7.6, 1.25, 3)]
    c.strokes(vessels, 0.14, 0.4)
    spine = [tube([(0, y - 2.1), (0, y + 2.1)], o["vertebra_profile"], 3.6 + 0.02 * i) for i,
        y in enumerate(np.arange(-46, 50, 5.6))]
    c.bone(*spine, amount=0.13, radius=2.6, cortex=0.6, inner=0.5)
    c.soft(tube([(0, -55), (0.2, -30), (-0.5, -12.5)], 1.9), amount=-0.3, edge=1.6, blur=0.35)
    c.soft(tube([(-0.5, -13.5), (-7, -6)], 1.3), tube([(-0.3, -13.5), (8, -7)], 1.2), amount=-0.16, edge=1.2,
        blur=0.4)
    _rib_cage(c, breath)
    clavicle = tube(o["clavicle"], [(0, 1.3), (0.2, 1), (0.6, 0.9), (1, 1.2)], 1.35)
    tilt = c.pose.normal(0, 1.2)
    c.bone(translate(clavicle, 0, tilt), translate(mirror(clavicle), 0, -tilt), amount=0.3, radius=1.4,
        cortex=0.5, inner=0.4)
    blade = o["blade"] - (c.pose.uniform(0, 2.5), 0)
    c.bone(blade, mirror(blade), amount=0.2, radius=1.6, cortex=0.5, inner=0.22)
    head = ellipse(-46, -30, 5.5, 5.5)
    c.bone(head, mirror(head), amount=0.4, radius=5, cortex=0.8, inner=0.45)
    # gas in the stomach
    c.soft(ellipse(17, floor + 8, 5.5 * c.pose.uniform(0.6, 1.1), 3), amount=-0.3, edge=3, blur=0.5)
    if c.body.female:
        breast = ellipse(-21, 15, 13 * wide, 12)
        c.soft(breast, mirror(breast), amount=0.16, edge=9, blur=0.8)
    _chest_findings(c)


def _half_chest(y: float) -> float:
    """Return the distance from the middle to the inside of the ribs at this height."""
    return float(np.interp(y, [-38, -30, -20, -5, 10, 30], [12, 22, 29, 34, 36, 37]))


def _rib_cage(c: Canvas, breath: float) -> None:
    """Draw ten pairs of ribs: the level part at the back, the slanting part in front."""
    back: list[ArrayLike] = []
    front: list[ArrayLike] = []
    for i in range(10):
        y = -37 + 5.9 * i + breath * i / 10
        w = _half_chest(y + 8)
        path = [(3.8, y + 1), (0.3 * w, y - 1.6), (0.62 * w, y - 0.6), (0.88 * w, y + 3.6), (w + 0.4, y + 10)]
        back += [path, mirror(path)]
        if i < 7:
            w2 = _half_chest(y + 16)
            path = [(w + 0.2, y + 9.6), (0.93 * w2, y + 15.5), (0.72 * w2, y + 20.5), (0.46 * w2, y + 23.5)]
            front += [path, mirror(path)]
    ribs(c, back[0::4] + back[1::4], 2.3, 0.17)
    ribs(c, back[2::4] + back[3::4], 2.3, 0.17)
    ribs(c, front, 2.2, 0.1)


def _chest_findings(c: Canvas) -> None:
    """Draw, in some images, a pacemaker, a nodule, an effusion or leads on the skin."""
    o = OUTLINES["chest_findings"]
    chance = c.pose.random()
    if chance < 0.05:
        c.soft(ellipse(24, -24, 4.2, 3.4, 15), amount=1.4, edge=0.8)
        c.strokes([(o["lead"], 0.5)], 0.6)
    elif chance < 0.11:
        c.soft(ellipse(c.pose.choice([-21, 22]), c.pose.uniform(-22, 10), 2.4, 2.2), amount=0.3, edge=2,
            blur=0.4)
    elif chance < 0.17:
        c.soft(o["effusion"], amount=0.55, edge=5, blur=1.2)
    elif chance < 0.24:
        c.strokes([([(-30, -20), (-20, -8), (-16, 20), (-18, 60)], 0.35), ([(28, -22), (22, 0),
            (25, 60)], 0.35)], 0.4)


def chest_lateral(c: Canvas) -> None:
    o = OUTLINES["chest_lateral"]
    f = 0.6 + 0.4 * c.body.build
    breath, arms = c.pose.normal(0, 1.5), c.pose.normal(0, 4)
    c.look((1, -1), c.pose.uniform(0.97, 1.06))
    bust = 3.5 if c.body.female else 0
    c.soft([(-9, -62), (-9, -45), (-16, -38), (-24, -28), (-30 * f, -12), (-33 * f - bust, 4),
        (-32 * f - bust, 14), (-31 * f, 24), (-33 * f, 62), (30 * f, 62), (33 * f, 30), (35 * f, 5),
        (34 * f, -16), (27, -34), (15, -46), (13, -62)], amount=1.3, edge=18, blur=0.5)
    c.soft(tube([(-1 + arms, -66), (-2, -48), (2, -30)], 9.5), amount=0.4, edge=9, blur=1)
    floor = 16 + breath

    c.soft(lowered(o["lungs"], floor), amount=-0.85, edge=9, blur=0.5)

    c.soft(lowered(o["diaphragm"], floor), amount=0.22, edge=4, blur=0.4)

    c.soft(lowered(o["heart"], floor), amount=0.52, edge=9, blur=0.7)
    c.soft(tube(o["aorta"], 3.2), amount=0.17, edge=3, blur=0.8)
    c.soft(ellipse(0, -6, 5, 5.5), amount=0.3, edge=4.5, blur=1.2)
    vessels = [branch for angle in (20, 60, 95, 150, 185, 230, 290, 335)
        for branch in _branches(c, (0, -6), angle + c.person.normal(0, 7), 7.2, 1.15, 3)]
    c.strokes(vessels, 0.12, 0.4)
    c.soft(tube([(1, -56), (2, -34), (4.2, -14)], 2.0), amount=-0.34, edge=1.8, blur=0.4)
    c.soft(ellipse(4.6, -12, 2.0, 2.2), ellipse(4.4, -5, 1.7, 1.7), amount=-0.2, edge=1.5, blur=0.3)
    c.bone(tube([(-16, -29), (-23, -16), (-29, 0), (-30.5, 10)], 1.25), amount=0.3, radius=1.3, cortex=0.4,
        inner=0.45)  # sternum
    _lateral_spine(c)
    for shift, amount in ((0.0, 0.1), (3.2, 0.08)):
        ribs(c, [[(26 - 0.16 * i + shift / 3, -32 + 7.4 * i + shift), (14, -22 + 8 * i + shift),
            (0, -10 + 8 * i + shift), (-14, 0 + 6.5 * i + shift),
            (-24, 6 + 4.5 * i + shift)] for i in range(5)], 2.0, amount)
    c.bone(o["blade"], amount=0.16, radius=1.2, cortex=0.4, inner=0.3)
    c.soft(ellipse(-10, floor + 9, 7, 3.4, -5), amount=-0.35, edge=3, blur=0.5)


def _lateral_spine(c: Canvas) -> None:
    """Draw thoracic vertebrae from the side along the kyphosis, and their processes."""
    o = OUTLINES["lateral_spine"]
    line = open_curve(o["line"])
    centres = resample(line, np.arange(len(line), dtype=float), np.linspace(0, len(line) - 1, 17))
    bodies, arches = [], []
    for a, b in pairwise(centres):
        gap = (b - a) * 0.1
        bodies.append(tube([a + gap, b - gap], o["vertebra_profile"], 3.3))
        arches.append(tube([translate(a, 3, 1), translate(a, 7, 3.5), translate(a, 10, 8)], 1.0))
    c.bone(*bodies, amount=0.34, radius=2.8, cortex=0.6, inner=0.5)
    c.bone(*arches, amount=0.12, radius=1, cortex=0.4)


def _gland(c: Canvas, nipple: Points, back: Points, spread: float, size: float) -> None:
    """Draw ducts and lobules that fan out from the nipple towards the chest wall, and fat between them."""
    # glands give way to fat with age
    share = float(np.clip(c.person.normal(0.9 - 0.006 * c.body.age, 0.2), 0.15, 1.0))
    axis = back - nipple
    length = float(np.hypot(*axis))
    heading = float(np.degrees(np.arctan2(axis[1], axis[0])))
    cloud = []
    for _ in range(12):
        reach, turn = (c.person.uniform(0.15, 0.72) * length,
            np.radians(heading + c.person.normal(0, spread * 0.5)))
        at = nipple + reach * np.array([np.cos(turn), np.sin(turn)])
        r = size * c.person.uniform(0.5, 1.1)
        cloud.append(ellipse(at[0], at[1], 1.5 * r, 0.8 * r, np.degrees(turn)))
    for part in (cloud[0::3], cloud[1::3], cloud[2::3]):
        c.soft(*part, amount=0.22 * share, edge=size * 0.9, blur=size * 0.3, mottle=0.55)
    strands = []
    for turn in np.radians(heading + np.linspace(-spread, spread, 19) + c.person.normal(0, 4, 19)):
        reach = length * c.person.uniform(0.55, 0.95)
        steps = np.linspace(0.05, 1, 6)
        bend = np.cumsum(c.person.normal(0, 0.09, 6))
        strands.append((nipple + reach * steps[:, None] * np.stack([np.cos(turn + bend),
            np.sin(turn + bend)], 1), c.person.uniform(0.3, 0.7)))
        fork = strands[-1][0][3]
        off = turn + c.person.normal(0, 0.5)
        strands.append((open_curve([fork, fork + size * 1.3 * np.array([np.cos(off), np.sin(off)]),
            fork + size * 2.2 * np.array([np.cos(off), np.sin(off * 0.9)])]), 0.45))
    c.strokes(strands[0::2], 0.075, 0.3)
    c.strokes(strands[1::2], 0.06, 0.25)


def _findings(c: Canvas, x: float, y: float) -> None:
    """Draw, in some images, a mass with spicules or a group of microcalcifications."""
    chance = c.pose.random()
    if chance < 0.15:
        c.soft(ellipse(x, y, 3.0, 2.6), amount=0.32, edge=2.2, blur=0.4)
        rays = [([(x, y), (x + 5.5 * np.cos(a), y + 5.5 * np.sin(a))],
            0.35) for a in c.pose.uniform(0, 6.3, 11)]
        c.strokes(rays, 0.14, 0.25)
    elif chance < 0.35:
        c.soft(*(ellipse(x + 1.8 * c.pose.normal(), y + 1.8 * c.pose.normal(), 0.3, 0.25, 0,
            6) for _ in range(11)), amount=0.55, edge=0.25)


def breast_mlo(c: Canvas) -> None:
    f = 0.55 + 0.45 * c.body.build
    c.look((0, 0), c.pose.uniform(0.97, 1.03), c.pose.normal(0, 1.5))
    tip = 32 - 46 * f
    skin = [(50, -64), (22, -64), (15, -48), (6, -34), (-4 + 0.35 * tip, -20), (0.84 * tip, -5), (tip, 10),
        (0.93 * tip, 21), (0.55 * tip, 31), (8, 38), (20, 41.5), (29, 47), (35, 64), (60, 64)]
    c.soft(skin, amount=0.55, edge=11, blur=0.25, mottle=0.05)
    c.strokes([(skin[1:-1], 0.7)], 0.1, 0.3)
    c.soft(ellipse(tip - 0.2, 11, 1.5, 1.8), amount=0.3, edge=1.2, blur=0.3)
    _gland(c, np.array([tip + 1, 11]), np.array([32.0, -2]), 34, 5.6 * f)
    muscle = [(60, -70), (18, -70), (21, -48), (26, -24), (31, -2), (36, 16), (60, 40)]
    c.soft(muscle, amount=0.3, edge=9, blur=0.6)
    if c.person.random() < 0.6:  # nodes in the armpit
        c.soft(ellipse(23 + c.person.normal(0, 2), -37 + c.person.normal(0, 2), 2.6, 1.5, -50),
            amount=0.25, edge=1.3, blur=0.3)
    _findings(c, c.pose.uniform(2, 16), c.pose.uniform(-6, 16))


def breast_cc(c: Canvas) -> None:
    f = 0.55 + 0.45 * c.body.build
    c.look((0, 0), c.pose.uniform(0.97, 1.03))
    tip, tall = 33 - 54 * f, 33 * (0.6 + 0.4 * f)
    lean = c.pose.normal(0, 1.5)
    round_ = np.radians(np.linspace(-90, 90, 11))
    skin = np.stack([36 - (36 - tip) * np.cos(round_) ** 0.85,
        tall * np.sin(round_) + lean * np.cos(round_)], 1)
    skin = np.concatenate([[(62, -tall - 3)], skin, [(62, tall + 3)]])
    c.soft(skin, amount=0.55, edge=11, blur=0.25, mottle=0.05)
    c.strokes([(skin[1:-1], 0.7)], 0.1, 0.3)
    c.soft(ellipse(tip - 0.2, lean, 1.5, 1.7), amount=0.3, edge=1.2, blur=0.3)
    _gland(c, np.array([tip + 1, lean]), np.array([36.0, -2]), 36, 6 * f)
    if c.person.random() < 0.5:
        # edge of the pectoral muscle
        c.soft(ellipse(45, c.person.normal(0, 3), 6, 15), amount=0.4, edge=5, blur=0.8)
    _findings(c, c.pose.uniform(-2, 18), c.pose.uniform(-12, 12))

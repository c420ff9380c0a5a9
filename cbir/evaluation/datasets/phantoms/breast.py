"""Mammograms; drawn as the right breast, the chest wall on the right of the image."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.shapes import Points, ellipse, open_curve


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

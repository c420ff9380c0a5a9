"""Skull from the front and from the side, and the panoramic view of the teeth."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np
from numpy.typing import ArrayLike

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.shapes import (
    OUTLINES,
    Points,
    along,
    ellipse,
    mirror,
    open_curve,
    translate,
    tube,
)
from cbir.evaluation.datasets.phantoms.spine import spine_front, spine_side


def _crooked(c: Canvas, path: ArrayLike, size: float) -> Points:
    """Return a suture: a line with a slight zigzag, the same in every image of the patient."""
    line = open_curve(path)
    return line + size * c.person.standard_normal(line.shape)


def skull_ap(c: Canvas) -> None:
    o = OUTLINES["skull_ap"]
    nod = c.pose.normal(0, 1.3)
    c.look((0, 0), c.pose.uniform(0.96, 1.05))
    c.soft(o["skin"], amount=0.85, edge=22)
    c.bone(o["vault"], amount=0.95, radius=8, cortex=1.8, inner=0.3, grain=0.05)
    spine_front(c, along([(0, 26), (0, 66)], 6), 4.6, 0.3, 0.7)
    c.bone(o["face"], amount=0.22, radius=7, cortex=0.9, inner=0.7)
    c.soft(o["cheeks"], amount=0.15, edge=5, blur=1.5)
    petrous = tube([(-25, 9 + nod), (-15, 5.5 + nod), (-5, 7 + nod)], 3.0)
    c.bone(petrous, mirror(petrous), amount=0.24, radius=3, cortex=0.8, inner=0.6)
    c.soft(o["orbit"], mirror(o["orbit"]), amount=-0.34, edge=3.5, blur=0.4)
    rim = np.vstack([o["orbit"], o["orbit"][:1]])
    c.strokes([(rim, 1.0), (mirror(rim), 1.0)], 0.24, 0.35)
    c.strokes([(p if s else mirror(p), 0.8) for p in ([(-20, -7), (-17.5, 0), (-17.2, 6)], [(-6, -1),
        (-12, -3.5), (-19, -2.6)]) for s in (0, 1)], 0.14, 0.3)
    c.soft(o["nose"], amount=-0.36, edge=3, blur=0.35)
    c.strokes([([(0, 2), (0.5, 10), (0, 20.5)], 0.8), ([(-4.4, 12), (-3, 14.5), (-2.6, 18)], 1.6),
        ([(4.4, 12), (3, 14.5), (2.6, 18)], 1.6)], 0.22, 0.3)
    c.soft(o["antrum"], mirror(o["antrum"]), amount=-0.26, edge=3, blur=0.4)
    frontal = o["frontal_sinus"]
    c.soft(frontal, mirror(frontal * (1, c.person.uniform(0.85, 1.1))), amount=-0.2, edge=1.6, blur=0.3)
    _jaw_front(c)
    c.strokes([(_crooked(c, [(0, -47), (0, -38), (0.5, -26)], 0.25), 0.4), (_crooked(c, o["suture"],
        0.35), 0.5)], -0.12)


def _jaw_front(c: Canvas) -> None:
    """Draw the mandible and both rows of teeth from the front."""
    o = OUTLINES["jaw_front"]
    drop = abs(c.pose.normal(0, 0.6))
    c.bone(translate(o["jaw"], 0, drop), amount=0.66, radius=3.6, cortex=1.1, inner=0.5, grain=0.09)
    teeth = [tube([(x, 22.5 - 0.03 * x * x), (x * 0.94, 31.2 - 0.02 * x * x)], [(0, 0.35), (0.4, 0.8),
        (0.75, 1.2), (1, 0.9)], 1.15) for x in np.arange(-11.2, 11.3, 2.8)]
    lower = [tube([(x * 0.94, 31.8 - 0.02 * x * x + drop), (x * 0.9, 40 - 0.03 * x * x + drop)], [(0, 0.9),
        (0.25, 1.1), (0.6, 0.8), (1, 0.35)], 1.05) for x in np.arange(-10.4, 10.5, 2.6)]
    c.bone(*teeth, *lower, amount=0.5, radius=1.3, cortex=0.4, inner=0.6)


def skull_lateral(c: Canvas) -> None:
    o = OUTLINES["skull_lateral"]
    c.look((0, 1), c.pose.uniform(0.96, 1.05), c.pose.normal(0, 2.5))
    c.soft(o["skin"], amount=0.75, edge=20)
    c.bone(o["vault"], amount=0.95, radius=8, cortex=1.8, inner=0.26, grain=0.05)
    spine_side(c, along([(10, 30), (8, 46), (10, 64)], 4), 4.6, 0.45, 2.2)
    c.soft(tube([(-8, 24), (-6, 36), (-6, 64)], 2.6), amount=-0.3, edge=2, blur=0.6)
    c.bone(tube([(-38, -2), (-24, -0.5), (-13, 3), (-3, 4.5)], 1.0), tube([(-14, 0), (-10, 5.5), (-6.2, 7.6)],
        0.7), amount=0.24, radius=1, cortex=0.4)  # base
    c.strokes([(o["sella"], 0.8)], 0.28, 0.25)
    c.bone(o["petrous"], amount=0.34, radius=5, cortex=1, inner=0.6)
    cells = [ellipse(10 + 3.4 * c.person.standard_normal(), 18 + 2.6 * c.person.standard_normal(), 0.9,
        0.8) for _ in range(9)]
    c.soft(*cells, amount=-0.16, edge=0.7)
    c.soft(ellipse(3.2, 13.6, 1.4, 1.3), amount=-0.4, edge=1)  # ear canal
    c.bone(o["face"], amount=0.38, radius=5, cortex=0.9, inner=0.5)
    c.soft(o["orbit"], amount=-0.24, edge=2.6, blur=0.4)
    c.strokes([([(-35.5, -1), (-36.8, 5), (-34, 11.5)], 1.1), ([(-32.5, 0), (-33.5, 5), (-31, 11.5)], 1.0)],
        0.25, 0.3)
    c.soft(o["antrum"], amount=-0.22, edge=2.4, blur=0.4)
    # sphenoid sinus
    c.soft([(-21.5, 3.5), (-12.5, 6), (-11, 10.5), (-17, 12)], amount=-0.26, edge=2, blur=0.4)
    # frontal sinus
    c.soft([(-40, -7.5), (-36.5, -4.5), (-36.2, -10), (-38.6, -14.5)], amount=-0.3, edge=1.4, blur=0.3)
    c.strokes([([(-40.5, 21.8), (-28, 21.6), (-18, 21)], 1.2)], 0.3, 0.3)  # hard palate
    _jaw_side(c)
    c.strokes([(_crooked(c, [(-14, -42), (-11, -30), (-13, -16), (-15, -6)], 0.4), 0.5), (_crooked(c,
        [(30, -35), (25, -22), (28, -8), (25, 6)], 0.5), 0.5)], -0.14)
    c.strokes([([(-11, 0), (-8, -14), (2, -28), (10, -37)], 0.6), ([(-8.5, -12), (4, -17), (17, -26)], 0.6),
        ([(-2, -23), (-4, -32), (-3, -38)], 0.6)], -0.07, 0.2)  # artery


def _jaw_side(c: Canvas) -> None:
    """Draw the mandible and teeth from the side; the two halves a little apart."""
    o = OUTLINES["jaw_side"]
    gape = abs(c.pose.normal(0, 0.8))
    c.bone(translate(o["jaw"], 0, gape), amount=0.5, radius=3, cortex=0.9, inner=0.42)
    c.bone(translate(o["jaw"] * 0.97, 0.8, gape - 0.4), amount=0.26, radius=3, cortex=0.8, inner=0.3)
    upper = [tube([(-37.5 + 3.1 * i, 22.5), (-38.2 + 3.2 * i, 29.4)], [(0, 0.5), (0.5, 0.9), (0.8, 1.25),
        (1, 0.8)], 1.3) for i in range(7)]
    lower = [tube([(-37.8 + 3.1 * i, 30 + gape), (-36.8 + 3.0 * i, 37 + gape)], [(0, 0.8), (0.2, 1.2),
        (0.5, 0.9), (1, 0.5)], 1.25) for i in range(7)]
    c.bone(*upper, *lower, amount=0.5, radius=1.4, cortex=0.4, inner=0.6)
    if c.person.random() < 0.4:  # fillings
        c.soft(*(ellipse(-38 + 3.2 * i, 28.6, 1.0, 0.6) for i in range(4, 7)), amount=0.7, edge=0.5)


# half width of crown, length of crown, length of root; from the middle to the back
TEETH = ((1.75, 4.2, 6.0), (1.45, 4.0, 6.0), (1.6, 4.6, 8.0), (1.6, 3.8, 6.6), (1.6, 3.6, 6.6), (2.5, 3.6,
    6.2), (2.45, 3.5, 6.0), (2.3, 3.3, 5.0))


def panoramic(c: Canvas) -> None:
    o = OUTLINES["panoramic"]
    c.look((0, 0), c.pose.uniform(0.96, 1.03))
    c.soft([(-60, -40), (60, -40), (60, 40), (-60, 40)], amount=0.55, edge=12)
    c.soft([(-9, 30), (-8, -30), (8, -30), (9, 30)], amount=0.28, edge=7, blur=3)  # shadow of the spine
    c.soft(*(tube([(s * 50, -14), (s * 44, 2), (s * 38, 14)], 4) for s in (-1, 1)), amount=-0.22, edge=4,
        blur=1.2)  # pharynx
    # air over the tongue
    c.soft(tube([(-32, -5.5), (-14, -7.8), (14, -7.8), (32, -5.5)], 2.2), amount=-0.2, edge=2, blur=1.0)
    for s in (-1, 1):
        c.bone(o["maxilla"] * (s, 1), amount=0.22, radius=5, cortex=0.5, inner=0.6, grain=0.12)
        c.soft(o["antrum"] * (s, 1), amount=-0.2, edge=2.5, blur=0.4)
        c.strokes([(np.array([(9, -14), (12, -8), (20, -7.4), (28, -10)]) * (s, 1), 0.6),
            (np.array([(24, -21), (33, -16.5), (44, -19)]) * (s, 1), 1.4)], 0.2, 0.3)
    bow = 0.0035 * c.person.normal(1, 0.2)  # how much the arch rises to the sides
    _jaw_panoramic(c, bow)
    _teeth(c, bow)


def _jaw_panoramic(c: Canvas, bow: float) -> None:
    """Draw the mandible with both rami, unrolled."""
    o = OUTLINES["jaw_panoramic"]
    body = [(x, 21.5 - 1.1 * bow * x * x) for x in np.arange(-32, 33, 8)]
    top = [(x, 6.5 - bow * x * x) for x in np.arange(30, -31, -6)]
    c.bone(np.vstack([body, o["right"], top, mirror(o["right"])[::-1]]), amount=0.5, radius=5, cortex=1.3,
        inner=0.5, grain=0.16)
    canal = [(36, -3), (34, 6), (26, 12.5), (16, 15)]
    c.strokes([(canal, 1.1), (mirror(canal), 1.1)], -0.1, 0.25)


def _teeth(c: Canvas, bow: float) -> None:
    """Draw both rows of teeth, some missing, some filled."""
    crowns, roots, pulps, x = [], [], [], 0.0
    missing = c.person.random((2, 2, 8)) < np.array([0.01] * 5 + [0.06, 0.04, 0.4])
    for number, (half, crown, root) in enumerate(TEETH):
        x += half + 0.12
        for s in (-1, 1):
            for jaw in (0, 1):
                if missing[(s + 1) // 2, jaw, number]:
                    continue
                up = -1 if jaw == 0 else 1
                bite = 0.4 * up + 0.2 - bow * x * x
                neck, tip, lean = (bite + up * crown, bite + up * (crown + root),
                    s * (0.04 * x) * (1 if jaw else -0.4))
                h = half * (0.72 if jaw and number < 2 else 1)
                crowns.append([(s * x - h * 0.8, bite), (s * x + h * 0.8, bite),
                    (s * x + h, bite + up * crown * 0.45), (s * x + h * 0.78, neck), (s * x - h * 0.78, neck),
                    (s * x - h, bite + up * crown * 0.45)])
                legs = (-0.45, 0.45) if number >= 5 else (0.0,)
                roots += [tube([(s * x + leg * h, neck - up * 0.6), (s * x + leg * h * 1.2 + lean, tip)],
                    [(0, 0.95), (0.5, 0.75), (0.9, 0.4), (1, 0.15)],
                    h * (0.5 if number >= 5 else 0.78)) for leg in legs]
                pulps += [([(s * x, bite + up * crown * 0.6),
                    (s * x + leg * h + lean * 0.4, neck + up * root * 0.5),
                    (s * x + leg * h * 1.2 + lean, tip - up * 0.8)], 0.4) for leg in legs]
        x += half
    c.bone(*roots, amount=0.3, radius=1.3, cortex=0.4, inner=0.75, grain=0.03)
    c.bone(*crowns, amount=0.55, radius=1.5, cortex=0.6, inner=0.75, grain=0.02)
    c.strokes(pulps, -0.1, 0.12)
    fillings = [np.mean(crown, 0) for crown in crowns if c.person.random() < 0.12]
    if fillings:
        c.soft(*(ellipse(px, py, 1.1, 0.9) for px, py in fillings), amount=0.7, edge=0.5)

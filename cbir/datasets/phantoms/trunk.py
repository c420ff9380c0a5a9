"""Abdomen, pelvis and hip."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.datasets.phantoms.canvas import Canvas
from cbir.datasets.phantoms.shapes import Points, ellipse, mirror, rotate, transform_shape, translate, tube
from cbir.datasets.phantoms.spine import along, gas, sacrum, scoliosis, spine_front
from cbir.datasets.phantoms.thorax import ribs

# the half of the pelvis on the right of the image, about the middle of the pelvic inlet
WING = [(6.2, -13), (7, -20), (10.5, -26.5), (16, -31), (23, -33.2), (30, -31.8), (36, -26.5),
    (39.2, -20.5), (38.6, -17.2), (35.8, -13.6), (35.4, -10), (33.4, -6), (31.4, -2), (26.5, -3.6),
    (21, -2), (18.2, 3), (18.5, 8), (15, 4.5), (14, -1), (11.6, -6), (8.4, -9.5)]
RING = [(19, -1), (23, 4), (23.5, 9), (22.4, 14), (21.8, 19), (18.8, 23.5), (15, 22.5), (10, 18.5),
    (4.5, 15.6), (1.1, 14.5), (1.0, 6.2), (5, 5.2), (11, 3.5), (15.5, 0.6)]
FORAMEN = [(8, 8.8), (13, 7.2), (16.4, 9.5), (16.5, 15), (13.6, 17.6), (9.6, 14.6), (7.2, 11.6)]
FEMUR = [(20.4, 4.8), (20.5, 1), (22.6, -1.8), (26, -2.8), (29.4, -1.4), (31.2, 1.2), (33.4, 3.2),
    (35.8, 2.9), (38.4, 0.4), (41, 1.6), (42.4, 6), (41.8, 13), (41.2, 24), (41.6, 60), (34.4, 60),
    (34.2, 26), (33.4, 21.8), (31.4, 19.8), (31.6, 16.6), (31.2, 13.2), (29.2, 10.4), (26.4, 9.2),
    (22.8, 8.3)]


def pelvis_bones(c: Canvas, amount: float) -> None:
    """Draw hip bones, sacrum and both femora; (0, 0) is the middle of the inlet, 33 units the half width."""
    wide = 1.06 if c.body.female else 0.98
    tall = 0.96 if c.body.female else 1.03
    sides = [np.array([wide, tall]), np.array([-wide, tall])]
    c.bone(*(np.array(WING) * s for s in sides), amount=amount * 0.62, radius=4.2, cortex=0.9, inner=0.22,
        grain=0.12)
    c.bone(*(np.array(RING) * s for s in sides), amount=amount * 0.72, radius=4, cortex=0.9, inner=0.42,
        holes=[np.array(FORAMEN) * s for s in sides])
    sacrum(c, 0, -18, 10.2, amount * 0.6)
    coccyx = [ellipse(0, 8 + 2.2 * i, 1.5 - 0.3 * i, 0.95) for i in range(3)]
    c.bone(*coccyx, amount=amount * 0.25, radius=1, cortex=0.3)
    c.soft(*(np.array([(23, -5), (24, -14), (30, -15), (34, -8), (31, -3)]) * s for s in sides),
        amount=amount * 0.22, edge=6, blur=2)
    for s in sides:
        c.strokes(
            [
                (np.array([(8, -24), (16, -31), (26, -32.4), (34, -28)]) * s, 1.3),  # crest
                (np.array([(8.6, -20), (10.4, -15), (9.6, -10.5)]) * s, 0.7),  # sacroiliac joint
                (np.array([(9, -9), (13, -3.5), (16, 1.5), (8, 5)]) * s, 0.7),  # iliopectineal line
                (np.array([(25, -5.5), (30.5, -3.8)]) * s, 1.2),  # roof of the acetabulum
                (np.array([(20.2, -1), (19, 4), (19.8, 9), (21, 10)]) * s, 0.6),  # teardrop
            ],
            amount * 0.22,
            0.25,
        )
        turn = c.pose.normal(0, 3)
        femur = rotate(np.array(FEMUR) * s, turn, np.array([26, 3.2]) * s)
        c.bone(femur, amount=amount * 0.85, radius=4.8, cortex=1.1, inner=0.44, grain=0.12)
        c.strokes([(rotate(np.array([(32.2, 19), (33.4, 12), (38, 4)]) * s, turn, np.array([26, 3.2]) * s),
            0.9)], amount * 0.14, 0.4)


def _hips_soft(c: Canvas, amount: float) -> None:
    f = c.body.build
    outline = [(-41 * f, -60), (-41 * f, -30), (-46 * f, -6), (-48 * f, 16), (-46 * f, 60), (-5, 70),
        (-4, 34), (0, 28), (4, 34), (5, 70), (46 * f, 60), (48 * f, 16), (46 * f, -6), (41 * f, -30),
        (41 * f, -60)]
    c.soft(outline, amount=amount, edge=15)


def _implant(c: Canvas, side: float) -> None:
    """Draw a total hip replacement: cup, head and stem of metal."""
    c.soft(ellipse(26 * side, 1.5, 6.6, 6.0), amount=1.0, edge=1.0)
    c.soft(ellipse(26 * side, 3.2, 3.6, 3.6), tube([(27 * side, 4), (35.5 * side, 11)], 1.6), amount=1.2,
        edge=1)
    stem = [(0, 1.6, 1.6), (0.15, 1.9, 1.9), (0.6, 1.0, 1.0), (1, 0.5, 0.5)]
    c.soft(tube([(35 * side, 8), (37.6 * side, 20), (38 * side, 38)], stem, 1.5), amount=1.5, edge=1.0)


def pelvis_ap(c: Canvas) -> None:
    c.look((0, 4), c.pose.uniform(0.98, 1.07))
    _hips_soft(c, 1.35)
    spine_front(c, along([(0, -46), (0, -19)], 2, 1.05), 7.2, 0.55, 0.6)
    pelvis_bones(c, 1.0)
    gas(c, [(-14, -22, 4), (13, -26, 5), (6, -8, 4), (-5, 0, 3.5), (2, -2, 3)], 0.26)
    if c.person.random() < 0.08:
        _implant(c, 1 if c.person.random() < 0.5 else -1)


def hip_ap(c: Canvas) -> None:
    c.look((-29, 10), c.pose.uniform(1.7, 1.9))
    _hips_soft(c, 1.2)
    pelvis_bones(c, 1.0)
    gas(c, [(-6, -8, 3)], 0.25)
    if c.person.random() < 0.14:
        _implant(c, -1)


def _kidney(c: Canvas, x: float, y: float, lean: float) -> Points:
    return transform_shape([(-3.6, -5), (-1, -7), (2.6, -6), (3.8, -2), (4, 3), (2, 7), (-1.6, 7), (-3.8, 4),
        (-2.2, 0)], x, y, c.person.uniform(0.95, 1.15), lean)


def abdomen_ap(c: Canvas) -> None:
    f = c.body.build
    c.look((0, 0), c.pose.uniform(0.98, 1.06))
    c.soft([(-38 * f, -70), (-38 * f, -30), (-36 * f, 0), (-38 * f, 25), (-42 * f, 70), (42 * f, 70),
        (38 * f, 25), (36 * f, 0), (38 * f, -30), (38 * f, -70)], amount=1.5, edge=24)
    lung = [(-10, -56), (-14, -46), (-24, -44.5), (-34, -37), (-40, -60)]
    c.soft(lung, translate(mirror(lung), 0, 1), amount=-0.6, edge=7, blur=0.7)
    c.soft([(-35 * f, -38), (-24, -45), (-6, -43), (8, -38), (-4, -26), (-16, -14), (-30 * f, -4),
        (-35 * f, -10)], amount=0.16, edge=7, blur=0.8)  # liver
    # spleen
    c.soft([(24, -40), (33 * f, -34), (33 * f, -22), (27, -20), (23, -30)], amount=0.12, edge=4, blur=0.8)
    c.soft(_kidney(c, -15, -10, 12), mirror(_kidney(c, -15, -13, 12)), amount=0.14, edge=4, blur=0.6)
    psoas = [(4, -22), (6, -14), (12, 8), (16, 24), (8, 26), (4, 0)]
    c.soft(psoas, mirror(psoas), amount=0.13, edge=4, blur=0.6)
    for i, (x, y) in enumerate(((-19, -52), (-21, -45), (-20, -38), (-16, -31), (-12, -27.5))):
        reach = (38, 38, 35, 27, 18)[i]
        path = [(-4, y + 1), (x, y + 1), (-reach, y + 11 - i)]
        ribs(c, [path, mirror(path)], 1.9, 0.17)
    spine_front(c, along(scoliosis(c, -54, 18.5), 9, 1.03), 4.9, 0.55, 0.7)
    low = np.array([(x * 0.78, y * 0.78 + 33.5) for x, y in WING])
    c.bone(low, mirror(low), amount=0.42, radius=3.2, cortex=0.75, inner=0.22, grain=0.12)
    ring = np.array([(x * 0.78, y * 0.78 + 33.5) for x, y in RING])
    hole = np.array([(x * 0.78, y * 0.78 + 33.5) for x, y in FORAMEN])
    c.bone(ring, mirror(ring), amount=0.45, radius=3, cortex=0.8, inner=0.42, holes=[hole, mirror(hole)])
    femur = np.array([(x * 0.78, y * 0.78 + 33.5) for x, y in FEMUR])
    c.bone(femur, mirror(femur), amount=0.55, radius=3.8, cortex=0.9, inner=0.44)
    sacrum(c, 0, 19, 8, 0.4)
    colon = [(-26, 20, 4.5), (-27, 11, 4.5), (-27, 2, 4), (-24, -8, 4), (-15, -14, 4), (-5, -15, 3.6),
        (6, -17, 3.8), (17, -21, 4.2), (26, -22, 4.4), (28, -11, 3.6), (28.5, 0, 3.4), (28, 10, 3.4),
        (23, 20, 3.6), (12, 27, 3.6), (2, 30, 4.0), (-4, 8, 2.6), (7, 5, 2.6), (-9, 17, 2.6)]
    gas(c, colon, 0.36)
    gas(c, [(15, -34, 6.5)], 0.45)
    if c.person.random() < 0.15:  # gallstones
        c.bone(*(ellipse(-18 + c.person.normal(0, 1.5), -11 + c.person.normal(0, 1.5), 0.9,
            0.8) for _ in range(5)), amount=0.4, radius=0.8, cortex=0.3, inner=0.2)

"""Shoulder, elbow, forearm, hand and wrist; drawn as the right side of the patient."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.datasets.phantoms.canvas import Canvas
from cbir.datasets.phantoms.shapes import Points, Profile, ellipse, rotate, transform_shape, tube
from cbir.datasets.phantoms.thorax import ribs


def even(*rows: tuple[float, float]) -> Profile:
    """Return a profile that is equal on both sides."""
    return [(position, width, width) for position, width in rows]


METACARPAL = even((0, 0.9), (0.05, 1.4), (0.15, 1.3), (0.3, 0.92), (0.5, 0.8), (0.7, 0.95), (0.86, 1.35),
    (0.95, 1.35), (1, 0.7))
PHALANX = even((0, 0.9), (0.05, 1.35), (0.14, 1.3), (0.35, 0.92), (0.6, 0.8), (0.82, 0.98), (0.93, 1.08),
    (1, 0.6))
TIP = even((0, 0.9), (0.08, 1.3), (0.22, 1.0), (0.5, 0.6), (0.72, 0.62), (0.88, 0.92), (1, 0.5))

# base x, base y, lean in degrees, half width, lengths of metacarpal and phalanges
FINGERS = ((-14.6, 20.6, -43, 2.05, (14.5, 10.5, 7.5)), (-7.8, 18.7, -9, 1.95, (22.0, 13.5, 8.3, 6.0)),
    (-1.8, 18.0, -1, 1.95, (21.0, 15.2, 9.8, 6.4)), (4.2, 19.2, 6, 1.75, (18.8, 14.2, 9.2, 6.3)), (9.2,
    20.6, 14, 1.6, (17.0, 11.3, 6.6, 5.6)))

CARPALS = (
    [
        (-11.6, 25.2),
        (-8.6, 24.6),
        (-5.4, 26.8),
        (-4.9, 30.2),
        (-6.8, 33.0),
        (-10.0, 31.0),
        (-12.2, 28.2),
    ],  # scaphoid
    [(-4.4, 28.9), (-1.6, 27.9), (1.6, 28.7), (2.6, 31.8), (-0.6, 33.6), (-4.6, 32.9)],  # lunate
    [(2.2, 28.2), (5.2, 25.8), (7.8, 25.6), (7.6, 28.8), (4.6, 31.4), (2.9, 30.8)],  # triquetrum
    [(-15.2, 22.6), (-12.0, 20.6), (-9.6, 21.4), (-9.4, 24.2), (-12.4, 26.4), (-15.4, 25.4)],  # trapezium
    [(-9.2, 19.6), (-6.4, 19.0), (-5.0, 20.6), (-5.3, 23.6), (-8.6, 24.2), (-9.4, 22.0)],  # trapezoid
    [
        (-4.4, 18.6),
        (0.2, 18.4),
        (1.0, 21.0),
        (0.7, 25.2),
        (-1.4, 27.5),
        (-4.4, 26.2),
        (-5.0, 22.0),
    ],  # capitate
    [(1.2, 19.2), (5.4, 19.8), (8.2, 21.4), (8.0, 24.2), (4.6, 25.4), (1.9, 28.0), (1.3, 24.0)],  # hamate
)


def _finger(c: Canvas, row: int, spread: float) -> tuple[list[Points], list[Points], Points]:
    """Return the bones of the palm and of the finger, and the skin of one finger."""
    x, y, lean, width, lengths = FINGERS[row]
    angle = lean * spread + c.pose.normal(0, 1.5)
    at = np.array([x, y])
    bones, skin = [], []
    bend = abs(c.pose.normal(0, 9))
    for joint, length in enumerate(lengths):
        length *= np.cos(np.radians(bend * joint))  # a bent finger is foreshortened
        direction = np.array([np.sin(np.radians(angle)), -np.cos(np.radians(angle))])
        profile = METACARPAL if joint == 0 else TIP if joint == len(lengths) - 1 else PHALANX
        bones.append(tube([at, at + direction * length], profile, width * (1, 0.98, 0.84, 0.82)[joint]))
        skin += ([at + direction * length * share for share in (0.35, 0.8)] if joint else [at
            + direction * length])
        at = at + direction * (length + 0.75)
        angle += c.pose.normal(0, 2.0) + (6 if row == 0 and joint == 0 else 0)
    skin.append(at + direction * 0.9)
    flesh = width * 1.95 * (0.88 + 0.12 * c.body.build)
    wide = even((0, 1.1), (0.3, 1.0), (0.7, 0.92), (0.88, 0.85), (0.96, 0.62), (1, 0.3))
    return bones[:1], bones[1:], tube(skin, wide, flesh)


def _hand(c: Canvas) -> None:
    spread = c.pose.uniform(0.7, 1.5)
    fingers = [_finger(c, row, spread) for row in range(5)]
    fat = 0.85 + 0.15 * c.body.build
    palm = [(-13.5 * fat, 60), (-12.5 * fat, 36), (-16 * fat, 25), (-18.5, 14), (-16.5, 6), (-17, -3),
        (-8, -8)]
    palm += [(2, -7), (11, -3), (15.5 * fat, 8), (15 * fat, 22), (12.5 * fat, 36), (13.5 * fat, 60)]
    c.soft(palm, *(skin for _, _, skin in fingers), amount=0.42, edge=7)
    c.soft(ellipse(-12, 16, 6, 10, -30), amount=0.14, edge=6, blur=1.5)
    radius = [(0, 0.9, 0.9), (0.45, 0.95, 0.95), (0.75, 1.15, 1.15), (0.9, 1.55, 1.7), (0.965, 1.5, 2.05),
        (1, 0.1, 1.95)]
    c.bone(tube([(-6, 72), (-5, 32.6)], [(t, b, a) for t, a, b in radius], 3.6), tube([(7, 72),
        (6.6, 34.5)], even((0, 0.9), (0.6, 0.85), (0.85, 1.05), (0.95, 1.25), (1, 0.8)), 2.9), amount=0.62,
        radius=3.6, cortex=0.9, inner=0.4)
    c.bone(ellipse(8.6, 34.4, 0.8, 1.6), amount=0.3, radius=0.8)
    c.bone(*CARPALS, amount=0.55, radius=2.6, cortex=0.4, inner=0.62, grain=0.12)
    c.bone(ellipse(5.9, 28.8, 1.7, 1.9), amount=0.16, radius=1.6, cortex=0.4)
    c.bone(*(b for palmar, _, _ in fingers for b in palmar), amount=0.6, radius=2.1, cortex=0.65, inner=0.42)
    c.bone(*(b for _, distal, _ in fingers for b in distal), amount=0.55, radius=1.8, cortex=0.55, inner=0.42)
    if c.pose.random() < 0.12:  # a ring
        c.strokes([([(4.2, -8.5), (9.4, -8)], 1.3)], 1.6)


def hand_pa(c: Canvas) -> None:
    c.look((0, -1.5), 1.04)
    _hand(c)


def wrist_pa(c: Canvas) -> None:
    c.look((-1.5, 24), 2.15)
    _hand(c)


HUMERUS = [(-6.3, -75), (-6, -35), (-7, -26), (-10.2, -18), (-13.4, -12), (-13.6, -8), (-12, -4.6),
    (-12.4, -1.6), (-9.6, 1.2), (-5.5, 0.9), (-2.2, -0.8), (1.5, 0.9), (5, 0.5), (9, 2.8), (11.3, 0.5),
    (11.5, -4), (14, -7), (17, -10.4), (16.4, -14), (12, -18), (8.2, -26), (6.6, -35), (6.5, -75)]
ULNA_PROXIMAL: Profile = [(0, 1.0, 0.6), (0.03, 1.5, 1.3), (0.1, 1.4, 1.35), (0.25, 1.05, 1.1),
    (0.5, 0.85, 0.85), (1, 0.7, 0.7)]
RADIUS_PROXIMAL = even((0, 1.2), (0.03, 1.42), (0.09, 1.35), (0.13, 0.95), (0.22, 0.88), (0.3, 1.1),
    (0.4, 0.95), (1, 1.0))


def _elbow_joint(c: Canvas, reach: float) -> None:
    """Draw the distal humerus over the joint at (0, 0), radius (left) and ulna (right) down to `reach`."""
    carry = c.pose.normal(8, 2.5)
    c.bone(HUMERUS, amount=0.72, radius=6.0, cortex=1.6, inner=0.38)
    c.soft(ellipse(1.5, -8.5, 4.6, 3.8), amount=-0.13, edge=3, blur=0.6)
    c.bone(tube([(1.6, -13), (4.5, 6)], 5.2), amount=0.26, radius=5, cortex=0.9, inner=0.3)  # olecranon
    ulna = rotate([(4.5, 2.6), (5, 25), (4, reach)], carry * 0.6)
    radius = rotate([(-8.2, 4.0), (-8.0, 20), (-10.5, 34), (-10, reach)], carry * 0.6)
    c.bone(tube(ulna, ULNA_PROXIMAL, 4.6), amount=0.66, radius=4.2, cortex=1.25, inner=0.36)
    c.bone(tube(radius, RADIUS_PROXIMAL, 3.7), amount=0.62, radius=3.8, cortex=1.15, inner=0.36)


def elbow_ap(c: Canvas) -> None:
    f = c.body.build
    c.soft([(-15 * f, -65), (-15 * f, -35), (-17 * f, -14), (-19 * f, 4), (-22 * f, 20), (-21 * f, 65),
        (17 * f, 65), (19 * f, 30), (20 * f, 8), (19 * f, -10), (15 * f, -30), (17 * f, -65)], amount=0.55,
        edge=15)
    _elbow_joint(c, 66)


def elbow_lateral(c: Canvas) -> None:
    f, flex = 0.7 + 0.3 * c.body.build, c.pose.normal(0, 7)
    c.look((-6, -2), 1.12, c.pose.normal(0, 4))
    c.soft(tube([(10, -70), (10, -20), (9, 14)], 14 * f), tube([rotate([(14, 8)], flex, (6, 8))[0],
        *rotate([(-15, 6), (-70, 7)], flex, (6, 8))], 13.5 * f), ellipse(8, 10, 15 * f, 15 * f),
        amount=0.55, edge=13)
    shaft: Profile = [(0, 1, 1), (0.5, 0.95, 0.95), (0.75, 0.95, 1.0), (0.88, 0.75, 1.15),
        (0.95, 0.65, 0.95), (1, 0.3, 0.4)]
    c.bone(tube([(13, -70), (11.5, -30), (7, 4)], shaft, 6.0), ellipse(4.5, 7.5, 7.2, 7.2), amount=0.7,
        radius=5.5, cortex=1.3, inner=0.38)
    c.bone(ellipse(5.0, 7.8, 4.7, 4.7), amount=0.16, radius=5, cortex=1.0, inner=0.3)  # trochlea, end on
    ulna = [(16.0, -2.5), (18.4, 3), (18.8, 12), (15, 18), (6, 19.3), (-8, 20), (-28, 19), (-66, 18),
        (-66, 11), (-28, 11.5), (-10, 11.5), (-4.8, 9.0), (-3.0, 10.5), (0.5, 14.2), (6, 15.6),
        (11.2, 13.0), (13.2, 7), (12.8, 0.5)]
    c.bone(rotate(ulna, flex, (6, 8)), amount=0.66, radius=4.3, cortex=1.2, inner=0.36)
    radius: Profile = RADIUS_PROXIMAL
    c.bone(tube(rotate([(-3.6, 5.5), (-24, 5), (-66, 7)], flex, (6, 8)), radius, 4.0), amount=0.5,
        radius=3.8, cortex=1.1, inner=0.36)


def forearm_ap(c: Canvas) -> None:
    f = 0.75 + 0.25 * c.body.build
    c.look((0, 0), (0.98, 1.0))
    c.soft([(-10 * f, -65), (-11 * f, -38), (-15 * f, -22), (-14 * f, 2), (-9 * f, 26), (-8.5 * f, 38),
        (-10.5, 52), (-9.5, 65), (9.5, 65), (10.5, 52), (8.5 * f, 38), (9 * f, 26), (13 * f, 2),
        (14 * f, -22), (11 * f, -38), (10 * f, -65)], amount=0.5, edge=12)
    c.bone(transform_shape(HUMERUS, 0, -36, 0.56), amount=0.6, radius=3.4, cortex=0.9, inner=0.38)
    c.soft(ellipse(0.6, -40, 2.6, 2.2), amount=-0.1, edge=2, blur=0.5)
    c.bone(tube([(0.8, -42.5), (2.6, -32)], 2.8), amount=0.22, radius=2.8, cortex=0.5, inner=0.3)
    turn = c.pose.normal(0, 0.8)
    radius: Profile = [(0, 1.1, 1.1), (0.02, 1.32, 1.32), (0.055, 1.2, 1.2), (0.08, 0.9, 0.9),
        (0.16, 1.15, 1.0), (0.25, 0.95, 0.95), (0.6, 1.05, 1.05), (0.85, 1.2, 1.2), (0.94, 1.75, 1.75),
        (0.985, 1.8, 2.0), (1.0, 0.7, 1.9)]
    ulna: Profile = [(0, 1.1, 0.7), (0.03, 1.6, 1.4), (0.09, 1.4, 1.35), (0.2, 1.1, 1.05),
        (0.5, 0.95, 0.95), (0.85, 0.75, 0.75), (0.95, 0.95, 0.95), (0.985, 1.05, 1.05), (1, 0.6, 0.6)]
    c.bone(tube([(3.0, -34), (4.6, -10), (4.0 + turn, 12), (4.6, 38.5)], ulna, 2.25), amount=0.6,
        radius=2.4, cortex=0.9, inner=0.3)
    c.bone(tube([(-4.6, -33), (-4.2, -24), (-6.6 - turn, 2), (-3.2, 38.6)], radius, 2.05), amount=0.58,
        radius=2.3, cortex=0.85, inner=0.3)
    carpals = [transform_shape(p, 0.4, 56.2, (0.52, -0.5)) for p in CARPALS]
    c.bone(*carpals, amount=0.42, radius=1.4, cortex=0.3, inner=0.6)
    rays = [tube([(x * 0.55, 47.4), (x * 0.75, 62)], METACARPAL, 1.1) for x in (-7.8, -1.8, 4, 9.2)]
    c.bone(*rays, tube([(-6.6, 44.8), (-12, 53)], METACARPAL, 1.1), amount=0.4, radius=1.1, cortex=0.35)


def shoulder_ap(c: Canvas) -> None:
    f = c.body.build
    raise_ = c.pose.normal(0, 5)
    c.look((3, 2), 1.05)
    c.soft([(60, -60), (34, -52), (16, -37), (-6, -33), (-22 - 4 * f, -26), (-30 - 5 * f, -8),
        (-33 - 5 * f, 20), (-36 - 5 * f, 65), (60, 65)], amount=0.85, edge=24, blur=0.4)
    c.soft([(-15, 70), (-12, 40), (-6, 24), (2, 14), (30, -40), (60, -40), (60, 70)], amount=0.35, edge=20,
        blur=3)
    c.soft([(20, 60), (17, 30), (18, 8), (25, -10), (36, -22), (52, -26), (70, -20), (70, 60)],
        amount=-0.75, edge=14, blur=1.0)
    ribs(c, [[(56, -22 + 11 * i), (38, -23 + 11 * i), (24, -14 + 11.5 * i),
        (16.5, 3 + 12 * i)] for i in range(5)], 2.2, 0.2)
    ribs(c, [[(17, 4 + 12 * i), (21, 17 + 12 * i), (36, 29 + 11 * i),
        (52, 34 + 11 * i)] for i in range(-1, 4)], 2.0, 0.1)
    blade = [(-5, -10), (1, -13), (9, -17), (19, -22), (24, -20), (24, -5), (21, 18), (16, 38), (12.5, 40),
        (8, 28), (1, 14), (-3.5, 7), (-6, 4)]
    c.bone(blade, amount=0.34, radius=3.0, cortex=0.7, inner=0.18)
    c.bone(ellipse(-4.6, -3, 2.7, 8.2, -5), amount=0.3, radius=2.6, cortex=0.8, inner=0.45)  # glenoid
    c.bone(tube([(21, -14), (8, -18), (-6, -23), (-17, -21)], [(0, 0.5, 0.5), (0.5, 0.7, 0.7),
        (0.8, 1.2, 1.1), (0.95, 1.1, 1.3), (1, 0.5, 0.6)], 3.3), amount=0.3, radius=2.5, cortex=0.7,
        inner=0.4)
    c.bone(tube([(4, -10), (-1, -15), (-6.5, -13.5)], 2.6), amount=0.3, radius=2.2, cortex=0.6)  # coracoid
    clavicle = [(-9.5, -26.5), (2, -29.5), (16, -28), (32, -22), (50, -20), (62, -22)]
    c.bone(tube(clavicle, [(0, 1.0, 1.0), (0.06, 1.35, 1.2), (0.25, 1.1, 1.1), (0.5, 0.9, 0.9),
        (1, 1.15, 1.15)], 2.5), amount=0.55, radius=2.5, cortex=0.9, inner=0.38)
    humerus = [(-17, -18.5), (-10.5, -16.8), (-6.8, -11), (-6.3, -3.5), (-8.8, 3.0), (-13.5, 8),
        (-16.3, 14), (-17.5, 24), (-18.5, 70), (-31.5, 70), (-29.3, 24), (-29, 12), (-29.6, 2),
        (-29.2, -6), (-26.5, -11.5), (-23.6, -13.3), (-21.8, -16.5)]
    c.bone(rotate(humerus, raise_, (-16, -5)), amount=0.72, radius=7, cortex=1.5, inner=0.42, grain=0.09)
    c.strokes([(rotate([(-23.5, -12.5), (-21, -4), (-15, 5)], raise_, (-16, -5)), 1.0)], 0.1, 0.6)

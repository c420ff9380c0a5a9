"""Arm and leg, from shoulder to hand and from knee to foot; drawn as the right side of the patient."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.shapes import (
    OUTLINES,
    Points,
    ellipse,
    grown,
    rotate,
    transform_shape,
    tube,
)
from cbir.evaluation.datasets.phantoms.thorax import ribs

METACARPAL, PHALANX, TIP = (OUTLINES["profiles"][name] for name in ("metacarpal", "phalanx", "tip"))

HUMERUS, CARPALS = OUTLINES["elbow"]["humerus"], tuple(OUTLINES["carpals"].values())

# base x, base y, lean in degrees, half width, lengths of metacarpal and phalanges
FINGERS = ((-14.6, 20.6, -43, 2.05, (14.5, 10.5, 7.5)), (-7.8, 18.7, -9, 1.95, (22.0, 13.5, 8.3, 6.0)), (-1.8,
    18.0, -1, 1.95, (21.0, 15.2, 9.8, 6.4)), (4.2, 19.2, 6, 1.75, (18.8, 14.2, 9.2, 6.3)),
    (9.2, 20.6, 14, 1.6, (17.0, 11.3, 6.6, 5.6)))


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
        skin += ([at + direction * length * share for share in (0.35,
            0.8)] if joint else [at + direction * length])
        at = at + direction * (length + 0.75)
        angle += c.pose.normal(0, 2.0) + (6 if row == 0 and joint == 0 else 0)
    skin.append(at + direction * 0.9)
    flesh = width * 1.95 * (0.88 + 0.12 * c.body.build)
    return bones[:1], bones[1:], tube(skin, OUTLINES["hand"]["finger_skin"], flesh)


def _hand(c: Canvas) -> None:
    o = OUTLINES["hand"]
    spread = c.pose.uniform(0.7, 1.5)
    fingers = [_finger(c, row, spread) for row in range(5)]
    fat = 0.85 + 0.15 * c.body.build
    c.soft(grown(o["palm"], fat), *(skin for _, _, skin in fingers), amount=0.42, edge=7)
    c.soft(ellipse(-12, 16, 6, 10, -30), amount=0.14, edge=6, blur=1.5)
    c.bone(tube([(-6, 72), (-5, 32.6)], o["radius"], 3.6), tube([(7, 72), (6.6, 34.5)], o["ulna"], 2.9),
        amount=0.62, radius=3.6, cortex=0.9, inner=0.4)
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


def _elbow_joint(c: Canvas, reach: float) -> None:
    """Draw the distal humerus over the joint at (0, 0), radius (left) and ulna (right) down to `reach`."""
    o, carry = OUTLINES["elbow"], c.pose.normal(8, 2.5)
    c.bone(HUMERUS, amount=0.72, radius=6.0, cortex=1.6, inner=0.38)
    c.soft(ellipse(1.5, -8.5, 4.6, 3.8), amount=-0.13, edge=3, blur=0.6)
    c.bone(tube([(1.6, -13), (4.5, 6)], 5.2), amount=0.26, radius=5, cortex=0.9, inner=0.3)  # olecranon
    ulna = rotate([(4.5, 2.6), (5, 25), (4, reach)], carry * 0.6)
    radius = rotate([(-8.2, 4.0), (-8.0, 20), (-10.5, 34), (-10, reach)], carry * 0.6)
    c.bone(tube(ulna, o["ulna"], 4.6), amount=0.66, radius=4.2, cortex=1.25, inner=0.36)
    c.bone(tube(radius, o["radius"], 3.7), amount=0.62, radius=3.8, cortex=1.15, inner=0.36)


def elbow_ap(c: Canvas) -> None:
    c.soft(grown(OUTLINES["elbow_ap"]["skin"], c.body.build), amount=0.55, edge=15)
    _elbow_joint(c, 66)


def elbow_lateral(c: Canvas) -> None:
    o = OUTLINES["elbow_lateral"]
    f, flex = 0.7 + 0.3 * c.body.build, c.pose.normal(0, 7)
    c.look((-6, -2), 1.12, c.pose.normal(0, 4))
    c.soft(tube([(10, -70), (10, -20), (9, 14)], 14 * f), tube([rotate([(14, 8)], flex, (6, 8))[0],
        *rotate([(-15, 6), (-70, 7)], flex, (6, 8))], 13.5 * f), ellipse(8, 10, 15 * f, 15 * f), amount=0.55,
        edge=13)
    c.bone(tube([(13, -70), (11.5, -30), (7, 4)], o["shaft"], 6.0), ellipse(4.5, 7.5, 7.2, 7.2), amount=0.7,
        radius=5.5, cortex=1.3, inner=0.38)
    c.bone(ellipse(5.0, 7.8, 4.7, 4.7), amount=0.16, radius=5, cortex=1.0, inner=0.3)  # trochlea, end on
    c.bone(rotate(o["ulna"], flex, (6, 8)), amount=0.66, radius=4.3, cortex=1.2, inner=0.36)
    c.bone(tube(rotate([(-3.6, 5.5), (-24, 5), (-66, 7)], flex, (6, 8)), OUTLINES["elbow"]["radius"], 4.0),
        amount=0.5, radius=3.8, cortex=1.1, inner=0.36)


def forearm_ap(c: Canvas) -> None:
    o = OUTLINES["forearm_ap"]
    c.look((0, 0), (0.98, 1.0))
    c.soft(grown(o["skin"], 0.75 + 0.25 * c.body.build), amount=0.5, edge=12)
    c.bone(transform_shape(HUMERUS, 0, -36, 0.56), amount=0.6, radius=3.4, cortex=0.9, inner=0.38)
    c.soft(ellipse(0.6, -40, 2.6, 2.2), amount=-0.1, edge=2, blur=0.5)
    c.bone(tube([(0.8, -42.5), (2.6, -32)], 2.8), amount=0.22, radius=2.8, cortex=0.5, inner=0.3)
    turn = c.pose.normal(0, 0.8)
    c.bone(tube([(3.0, -34), (4.6, -10), (4.0 + turn, 12), (4.6, 38.5)], o["ulna"], 2.25), amount=0.6,
        radius=2.4, cortex=0.9, inner=0.3)
    c.bone(tube([(-4.6, -33), (-4.2, -24), (-6.6 - turn, 2), (-3.2, 38.6)], o["radius"], 2.05), amount=0.58,
        radius=2.3, cortex=0.85, inner=0.3)
    carpals = [transform_shape(p, 0.4, 56.2, (0.52, -0.5)) for p in CARPALS]
    c.bone(*carpals, amount=0.42, radius=1.4, cortex=0.3, inner=0.6)
    rays = [tube([(x * 0.55, 47.4), (x * 0.75, 62)], METACARPAL, 1.1) for x in (-7.8, -1.8, 4, 9.2)]
    c.bone(*rays, tube([(-6.6, 44.8), (-12, 53)], METACARPAL, 1.1), amount=0.4, radius=1.1, cortex=0.35)


def shoulder_ap(c: Canvas) -> None:
    o = OUTLINES["shoulder_ap"]
    raise_ = c.pose.normal(0, 5)
    c.look((3, 2), 1.05)
    c.soft(grown(o["skin"], c.body.build), amount=0.85, edge=24, blur=0.4)
    c.soft(o["flank"], amount=0.35, edge=20, blur=3)
    c.soft(o["lung"], amount=-0.75, edge=14, blur=1.0)
    ribs(c, [[(56, -22 + 11 * i), (38, -23 + 11 * i), (24, -14 + 11.5 * i),
        (16.5, 3 + 12 * i)] for i in range(5)], 2.2, 0.2)
    ribs(c, [[(17, 4 + 12 * i), (21, 17 + 12 * i), (36, 29 + 11 * i), (52, 34 + 11 * i)] for i in range(-1,
        4)], 2.0, 0.1)
    c.bone(o["blade"], amount=0.34, radius=3.0, cortex=0.7, inner=0.18)
    c.bone(ellipse(-4.6, -3, 2.7, 8.2, -5), amount=0.3, radius=2.6, cortex=0.8, inner=0.45)  # glenoid
    c.bone(tube([(21, -14), (8, -18), (-6, -23), (-17, -21)], o["acromion_profile"], 3.3), amount=0.3,
        radius=2.5, cortex=0.7, inner=0.4)
    c.bone(tube([(4, -10), (-1, -15), (-6.5, -13.5)], 2.6), amount=0.3, radius=2.2, cortex=0.6)  # coracoid
    c.bone(tube(o["clavicle"], o["clavicle_profile"], 2.5), amount=0.55, radius=2.5, cortex=0.9, inner=0.38)
    c.bone(rotate(o["humerus"], raise_, (-16, -5)), amount=0.72, radius=7, cortex=1.5, inner=0.42, grain=0.09)
    c.strokes([(rotate([(-23.5, -12.5), (-21, -4), (-15, 5)], raise_, (-16, -5)), 1.0)], 0.1, 0.6)


def knee_ap(c: Canvas) -> None:
    o = OUTLINES["knee_ap"]
    varus = c.pose.normal(2, 2)
    c.soft(grown(o["skin"], c.body.build), amount=0.75, edge=18)
    c.bone(rotate(o["femur"], varus, (0, -2)), amount=0.75, radius=8.5, cortex=1.7, inner=0.42, grain=0.09)
    c.bone(o["tibia"], amount=0.72, radius=8.5, cortex=1.5, inner=0.42, grain=0.09)
    c.bone(tube([(-17.5, 8.5), (-16, 30), (-14.5, 70)], o["fibula"], 3.1), amount=0.45, radius=2.9,
        cortex=0.95, inner=0.35)
    # patella
    c.bone(ellipse(c.pose.normal(-0.3, 0.8), -14.5, 9.2, 9.6), amount=0.14, radius=6, cortex=1, inner=0.55)
    c.strokes([([(-15, 12), (-6, 15), (5, 15), (15, 11)], 0.8)], 0.06, 0.5)


def knee_lateral(c: Canvas) -> None:
    o = OUTLINES["knee_lateral"]
    f, flex = 0.5 + 0.5 * c.body.build, c.pose.normal(22, 7)
    c.look((4, 0), 1.0)
    hip = (3.0, -4.0)
    c.soft(rotate(grown(o["thigh"], f), flex * 0.55, hip), rotate(grown(o["shank"], f), -flex * 0.45, hip),
        amount=0.72, edge=18)
    c.bone(rotate(o["femur"], flex * 0.55, hip), amount=0.75, radius=8, cortex=1.6, inner=0.42, grain=0.09)
    c.bone(rotate(ellipse(11, -6.2, 8.9, 8.9), flex * 0.55, hip), amount=0.16, radius=8, cortex=1, inner=0.3)
    c.bone(rotate(o["tibia"], -flex * 0.45, hip), amount=0.72, radius=7.5, cortex=1.5, inner=0.42, grain=0.09)
    c.bone(tube(rotate([(17.5, 11.5), (15, 32), (13.5, 80)], -flex * 0.45, hip), o["fibula"], 2.9),
        amount=0.4, radius=2.7, cortex=0.9, inner=0.35)
    c.bone(rotate(o["patella"], flex * 0.25, hip), amount=0.5, radius=3.5, cortex=0.8, inner=0.5)
    c.soft(ellipse(-11.5, 4.5, 3.5, 6, -15), amount=-0.1, edge=3, blur=1)  # fat pad of Hoffa


def ankle_ap(c: Canvas) -> None:
    o = OUTLINES["ankle_ap"]
    f, tilt = 0.6 + 0.4 * c.body.build, c.pose.normal(0, 3)
    c.look((0, 2), 1.06)
    c.soft(grown(o["skin"], f), amount=0.7, edge=14)
    c.bone(rotate(o["heel"], tilt, (0, 15)), amount=0.2, radius=7, cortex=0.9, inner=0.6)
    c.bone(o["heel_pad"], amount=0.22, radius=6, cortex=0.8, inner=0.6)
    c.bone(rotate(o["talus"], tilt, (0, 15)), amount=0.62, radius=6.5, cortex=1.2, inner=0.48, grain=0.09)
    c.bone(o["tibia"], amount=0.72, radius=7.5, cortex=1.5, inner=0.42, grain=0.09)
    c.bone(o["fibula"], amount=0.5, radius=3.4, cortex=1.0, inner=0.38)


def ankle_lateral(c: Canvas) -> None:
    o = OUTLINES["ankle_lateral"]
    f, flex = 0.6 + 0.4 * c.body.build, c.pose.normal(0, 5)
    c.look((0, 2), 1.05)
    about = (6, 10)
    c.soft(rotate(grown(o["leg"], f), flex, about), o["sole"], amount=0.62, edge=14)
    c.bone(rotate(o["tibia"], flex, about), amount=0.72, radius=6.5, cortex=1.4, inner=0.42, grain=0.09)
    c.bone(rotate(tube([(17, -80), (13.5, -25), (7.5, 17)], [(0, 1), (0.7, 1.0), (0.88, 1.5), (0.95, 1.4),
        (1, 0.6)], 2.9), flex, about), amount=0.36, radius=3, cortex=0.8, inner=0.35)
    c.bone(o["talus"], amount=0.55, radius=5.5, cortex=1.1, inner=0.48, grain=0.12)
    c.bone(o["heel"], amount=0.62, radius=6.5, cortex=1.1, inner=0.46, grain=0.13)
    c.bone(o["navicular"], amount=0.4, radius=3, cortex=0.7, inner=0.5)
    c.bone(o["cuboid"], amount=0.4, radius=4, cortex=0.8, inner=0.5)
    c.bone(o["cuneiforms"], amount=0.38, radius=3.5, cortex=0.7, inner=0.5)
    rays = [tube([(-31 + i, 18 + 3.4 * i), (-70, 28 + 2.6 * i)], [(0, 1.5), (0.1, 1.3), (0.3, 0.9), (1, 0.9)],
        2.6) for i in range(4)]
    for ray in rays:
        c.bone(ray, amount=0.28, radius=2.4, cortex=0.7, inner=0.38)


# base x, base y, lean in degrees, half width, lengths of metatarsal and phalanges
TOES = ((-9.0, 4.0, -5, 3.3, (22.0, 11.5, 7.5)), (-3.2, 1.0, -3, 1.9, (26.0, 8.5, 3.2, 2.8)), (1.8, 2.8, 1,
    1.75, (24.0, 7.6, 2.7, 2.6)), (6.6, 5.4, 5, 1.7, (23.0, 6.8, 2.3, 2.4)),
    (11.4, 9.4, 10, 1.8, (21.0, 6.0, 2.0, 2.3)))


def foot_ap(c: Canvas) -> None:
    o = OUTLINES["foot_ap"]
    f = 0.88 + 0.12 * c.body.build
    spread, hallux = c.pose.uniform(0.7, 1.5), float(np.clip(c.person.normal(5, 4), 0, 11))
    c.look((0, 1), 1.06)
    metatarsals: list[Points] = []
    phalanges: list[Points] = []
    skins = []
    for row, (x, y, lean, width, lengths) in enumerate(TOES):
        angle, at = lean * spread + c.pose.normal(0, 0.8), np.array([x, y])
        skin = []
        for joint, length in enumerate(lengths):
            length *= 1 if joint < 1 else c.pose.uniform(0.85, 1.0)
            direction = np.array([np.sin(np.radians(angle)), -np.cos(np.radians(angle))])
            profile = METACARPAL if joint == 0 else TIP if joint == len(lengths) - 1 else PHALANX
            bone = tube([at, at + direction * length], profile, width * (1, 0.9, 0.78, 0.75)[joint])
            (metatarsals if joint == 0 else phalanges).append(bone)
            skin.append(at + direction * length * 0.7)
            at = at + direction * (length + 0.55)
            angle += hallux if row == 0 and joint == 0 else c.pose.normal(0, 2) - (2 if joint == 0 else 0)
        skins.append(tube([*skin, at + direction * 0.8], o["toe_skin"], width * 1.75))
    c.soft(grown(o["sole"], f), *skins, amount=0.45, edge=9)
    c.soft(grown(o["heel_skin"], f), amount=0.3, edge=10, blur=3)
    c.bone(o["calcaneus"], amount=0.26, radius=6, cortex=0.9, inner=0.5)
    c.bone(ellipse(-4.6, 27.6, 6.2, 5.6), amount=0.24, radius=5, cortex=0.9, inner=0.5)  # head of the talus
    c.bone(*OUTLINES["tarsals"].values(), amount=0.5, radius=4, cortex=0.7, inner=0.55, grain=0.12)
    c.bone(*metatarsals, amount=0.58, radius=2.2, cortex=0.7, inner=0.42)
    c.bone(*phalanges, amount=0.46, radius=1.7, cortex=0.5, inner=0.45)
    c.bone(ellipse(-10.9, -14.6, 1.1, 1.5), ellipse(-8.4, -14.8, 1.0, 1.4), amount=0.24, radius=1.1,
        cortex=0.3)  # sesamoids

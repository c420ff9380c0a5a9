"""Knee, ankle and foot; drawn as the right side of the patient."""

# Tables of coordinates, a shape on a line or two.
# fmt: off

import numpy as np

from cbir.evaluation.datasets.phantoms.arm import METACARPAL, PHALANX, TIP
from cbir.evaluation.datasets.phantoms.canvas import Canvas
from cbir.evaluation.datasets.phantoms.outlines import OUTLINES, grown
from cbir.evaluation.datasets.phantoms.shapes import Points, ellipse, rotate, tube


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

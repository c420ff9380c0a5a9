"""Table of the classes of phantoms, in the terms of IRMA and DICOM."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cbir.evaluation.datasets.phantoms import head, limbs, spine, thorax
from cbir.evaluation.datasets.phantoms.canvas import Canvas

VIEWS = {
    "pa": "posteroanterior",
    "ap": "anteroposterior",
    "mlo": "mediolateral oblique",
    "cc": "craniocaudal",
}


@dataclass(frozen=True)
class PhantomRegion:
    """A class of phantoms.

    name: the label. code: IRMA code; for regions with `sides` (the anatomy axis of the left and the right one)
    the code where the side is unknown. body_part: BodyPartExamined (PS3.16 annex L). view: ViewPosition (PS3.3
    C.7.3.1.1, C.8.11.1). width, height: of the field, the larger is 100; length: of that side in mm.
    """

    name: str
    code: str
    modality: str
    body_part: str
    view: str
    width: float
    height: float
    length: float
    draw: Callable[[Canvas], None] = field(repr=False)
    sides: tuple[str, str] | None = None

    @property
    def anatomy(self) -> str:
        """The class without its view, in words."""
        return self.name.rpartition("-")[0].replace("-", " ") or "jaws"

    @property
    def direction(self) -> str:
        """The view as the class name has it."""
        return self.name.rpartition("-")[2]

    @property
    def description(self) -> str:
        """Anatomy and view in words."""
        return f"{self.anatomy}, {VIEWS.get(self.direction, self.direction)}"

    def code_of(self, laterality: str) -> str:
        """Return the code with the side, "L" or "R", if the region has sides."""
        if self.sides is None:
            return self.code
        technique, direction, _, system = self.code.split("-")
        return f"{technique}-{direction}-{self.sides[laterality == 'R']}-{system}"


# fmt: off
REGIONS = tuple(PhantomRegion(*row) for row in (
    ("chest-pa", "1113-110-500-000", "DX", "CHEST", "PA", 90, 100, 430, thorax.chest_pa),
    ("chest-lateral", "1113-210-500-000", "DX", "CHEST", "LL", 82, 100, 430, thorax.chest_lateral),
    ("abdomen-ap", "1111-127-700-400", "DX", "ABDOMEN", "AP", 84, 100, 430, spine.abdomen_ap),
    ("pelvis-ap", "1111-120-800-700", "DX", "PELVIS", "AP", 100, 84, 430, spine.pelvis_ap),
    ("hip-ap", "1111-120-960-700", "DX", "HIP", "AP", 80, 100, 240, spine.hip_ap, ("961", "962")),
    ("skull-ap", "1111-120-200-700", "DX", "SKULL", "AP", 80, 100, 270, head.skull_ap),
    ("skull-lateral", "1111-210-230-700", "DX", "SKULL", "RL", 100, 88, 270, head.skull_lateral),
    ("cervical-spine-lateral", "1111-210-310-700", "CR", "CSPINE", "RL", 78, 100, 240, spine.cervical_lateral),
    ("thoracic-spine-ap", "1111-120-320-700", "CR", "TSPINE", "AP", 56, 100, 400, spine.thoracic_ap),
    ("lumbar-spine-ap", "1111-120-330-700", "CR", "LSPINE", "AP", 70, 100, 350, spine.lumbar_ap),
    ("lumbar-spine-lateral", "1111-210-330-700", "CR", "LSPINE", "RL", 70, 100, 350, spine.lumbar_lateral),
    ("shoulder-ap", "1111-120-460-700", "DX", "SHOULDER", "AP", 100, 88, 300, limbs.shoulder_ap, ("462", "463")),
    ("elbow-ap", "1111-120-440-700", "CR", "ELBOW", "AP", 66, 100, 240, limbs.elbow_ap, ("441", "442")),
    ("elbow-lateral", "1111-240-440-700", "CR", "ELBOW", "LM", 100, 88, 240, limbs.elbow_lateral, ("441", "442")),
    ("forearm-ap", "1111-120-430-700", "CR", "FOREARM", "AP", 58, 100, 360, limbs.forearm_ap, ("437", "438")),
    ("hand-pa", "1111-110-410-700", "CR", "HAND", "PA", 78, 100, 240, limbs.hand_pa, ("414", "415")),
    ("wrist-pa", "1111-110-420-700", "CR", "WRIST", "PA", 74, 100, 120, limbs.wrist_pa, ("421", "422")),
    ("knee-ap", "1111-120-940-700", "DX", "KNEE", "AP", 68, 100, 300, limbs.knee_ap, ("942", "943")),
    ("knee-lateral", "1111-230-940-700", "DX", "KNEE", "ML", 78, 100, 300, limbs.knee_lateral, ("942", "943")),
    ("ankle-ap", "1111-120-920-700", "CR", "ANKLE", "AP", 66, 100, 240, limbs.ankle_ap, ("921", "922")),
    ("ankle-lateral", "1111-230-920-700", "CR", "ANKLE", "ML", 92, 100, 240, limbs.ankle_lateral, ("921", "922")),
    ("foot-ap", "1111-120-910-700", "CR", "FOOT", "AP", 56, 100, 300, limbs.foot_ap, ("914", "915")),
    ("breast-mlo", "1114-410-600-625", "MG", "BREAST", "MLO", 78, 100, 240, thorax.breast_mlo, ("620", "610")),
    ("breast-cc", "1114-310-600-625", "MG", "BREAST", "CC", 78, 100, 240, thorax.breast_cc, ("620", "610")),
    ("panoramic", "111c-4c0-218-c00", "DX", "JAW", "", 100, 52, 300, head.panoramic),
))

"""Active learning and segmentations for the plugins of MONAI Label."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="monailabel",
    routes=("service.features.monailabel.routes:blueprint",),
    access="service.features.monailabel.routes:RULES",
    checks={"segmentations": "service.features.monailabel.segmentation_files:segmentation_problems"},
    eraser="service.features.monailabel.segmentation_files:erase_segmentations",
    mentions="service.features.monailabel.segmentation_files:segmented_images",
    erases_deleted=True,
)

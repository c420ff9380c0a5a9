"""What is wrong with the images and labels of a collection, and images in quarantine."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="audit",
    jobs={"audit": "service.features.audit.job_kind:AUDIT"},
)

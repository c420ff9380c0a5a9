"""Images that are annotated, which have the label `annotation`, and those that are still to be."""

from cbir.errors import InvalidInput
from cbir.store import Collection, Record
from cbir.store.records.image_order import parse_order

ANNOTATION = "annotation"  # key of the label
FINAL = "final"  # tag of MONAI Label for segmentations that a person has finished


class AnnotatedImages:
    """Annotated and open images that the caller may see."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        try:
            collection.conditions([f"{ANNOTATION}?"])
            self.any = True
        except InvalidInput:  # no image has the label
            self.any = False

    @property
    def open_where(self) -> list[str]:
        """Conditions of the images that are still to be annotated."""
        return [f"!{ANNOTATION}?"] if self.any else []

    def first_open(self) -> Record | None:
        """Return the image that was added first among those to be annotated."""
        conditions = self.collection.conditions(self.open_where)
        page = self.collection.sorted_page(parse_order("oldest"), None, 1, conditions)
        return page[0][1] if page else None

    def latest(self, count: int) -> list[Record]:
        """Return at most `count` annotated images, the last added first."""
        if not self.any:
            return []
        conditions = self.collection.conditions([f"{ANNOTATION}?"])
        return [
            record
            for _, record in self.collection.sorted_page(parse_order("newest"), None, count, conditions)
        ]

    def tags(self) -> dict[str, int]:
        """Return the numbers of annotated images by tag."""
        if not self.any:
            return {}
        return {item.value: item.images for item in self.collection.list_label_values(ANNOTATION).items}

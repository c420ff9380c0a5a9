"""Notes about images."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="notes",
    routes=("image_notes.notes:blueprint",),
    access="image_notes.notes:RULES",
    menu=("image_notes.notes:MENU_PAGE",),
    tables=("image_notes.notes",),
    eraser="image_notes.notes:erase_notes",
    mentions="image_notes.notes:noted_images",
)

"""Headers of pictures, with facts of the image that they show."""

from flask import Response

from cbir.ingest.decoder_tasks import RenderedImage


def set_image_headers(response: Response, image: RenderedImage) -> None:
    """Set Image-Size and -Frames, and where they are known Image-Window, -Values, -Spacing and -Modality."""
    headers = {"Image-Size": f"{image.width},{image.height}", "Image-Frames": str(image.frames)}
    if image.windowing:
        center, width, least, greatest = image.windowing
        headers["Image-Window"] = f"{center:.10g},{width:.10g}"
        headers["Image-Values"] = f"{least:.10g},{greatest:.10g}"
    if image.spacing:
        rows, columns = image.spacing
        headers["Image-Spacing"] = f"{rows:.10g},{columns:.10g}"
    if image.modality.isalnum() and image.modality.isascii():
        headers["Image-Modality"] = image.modality
    response.headers.update(headers)

"""Transfer syntaxes that can be decoded."""

from functools import cache

from pydicom.uid import UID, AllTransferSyntaxes

from cbir.images.dicom_frames import DECODED


@cache
def decodable_syntaxes() -> tuple[UID, ...]:
    """Return the transfer syntaxes of PS3.5 and PS3.6 that `cbir.images` decodes."""
    return tuple(syntax for syntax in AllTransferSyntaxes if syntax in DECODED)

"""Transfer syntaxes that can be decoded."""

from functools import cache

from pydicom.pixels.decoders.base import get_decoder
from pydicom.uid import UID, AllTransferSyntaxes, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian


@cache
def decodable_syntaxes() -> tuple[UID, ...]:
    """Return the transfer syntaxes of PS3.5 and PS3.6 that `cbir.images` decodes with the installed packages."""
    return tuple(syntax for syntax in AllTransferSyntaxes if _is_decodable(syntax))


def _is_decodable(syntax: UID) -> bool:
    if syntax in (DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian):
        return True
    try:
        return bool(get_decoder(syntax).is_available)
    except NotImplementedError:
        return False

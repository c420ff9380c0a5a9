"""The transfer syntaxes that can be decoded here."""

from functools import cache

from pydicom.pixels import get_decoder
from pydicom.uid import UID, AllTransferSyntaxes, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian


@cache
def decodable() -> tuple[UID, ...]:
    """Of those of PS3.5 and PS3.6, the ones whose pixels `cbir.images` decodes with what is installed."""
    return tuple(syntax for syntax in AllTransferSyntaxes if _decodes(syntax))


def _decodes(syntax: UID) -> bool:
    if syntax in (DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian):
        return True
    try:
        return bool(get_decoder(syntax).is_available)
    except NotImplementedError:
        return False

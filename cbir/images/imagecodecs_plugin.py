"""Plugin of pydicom that decodes JPEG extended, JPEG lossless and JPEG-LS with imagecodecs (libjpeg-turbo, CharLS).

Its interface: https://pydicom.github.io/pydicom/stable/guides/decoding/decoder_plugins.html
"""

import numpy as np
from pydicom import uid
from pydicom.pixels.decoders.base import DecodeRunner, get_decoder

LABEL = "imagecodecs"
SYNTAXES = (uid.JPEGExtended12Bit, uid.JPEGLossless, uid.JPEGLosslessSV1, *uid.JPEGLSTransferSyntaxes)
DECODER_DEPENDENCIES = dict.fromkeys(SYNTAXES, (LABEL,))
EOI = b"\xff\xd9"


def is_available(syntax: str) -> bool:
    """Return whether the plugin decodes a transfer syntax; pydicom asks for it by this name."""
    return syntax in DECODER_DEPENDENCIES


def decode_frame(coded: bytes, runner: DecodeRunner) -> bytes:
    """Return the samples of a frame, by pixel, as they are stored: pydicom converts colours and adds signs."""
    import imagecodecs  # only here: few data sets need it

    if runner.transfer_syntax in uid.JPEGLSTransferSyntaxes:
        try:
            samples = imagecodecs.jpegls_decode(coded)
        except imagecodecs.JpeglsError:
            data, end, _ = coded.rpartition(EOI)
            if not data.endswith(b"\0"):
                raise
            samples = imagecodecs.jpegls_decode(
                data.rstrip(b"\0") + end
            )  # CharLS refuses padding before the end
    else:
        colours = "YCBCR" if runner.samples_per_pixel == 3 else None  # of both: nothing is converted
        samples = imagecodecs.jpeg8_decode(coded, colorspace=colours, outcolorspace=colours)
    if runner.transfer_syntax == uid.JPEGExtended12Bit and not runner.pixel_representation:
        np.minimum(samples, 2**runner.bits_stored - 1, out=samples)  # lossy coding goes beyond the range
    runner.set_option("bits_allocated", 8 * samples.itemsize)
    runner.set_option("planar_configuration", 0)
    return bytes(samples.data)


def register_plugin() -> None:
    """Make the plugin known to pydicom's decoders, once."""
    for decoder in map(get_decoder, DECODER_DEPENDENCIES):
        if LABEL not in decoder.available_plugins:
            decoder.add_plugin(LABEL, (__name__, decode_frame.__name__))

"""Small files that ask decoders for much time or memory."""

import struct
import zlib
from io import BytesIO

import numpy as np
import PIL.Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.filewriter import dcmwrite
from pydicom.uid import CTImageStorage, DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian

ITEM, END_OF_SEQUENCE = b"\xfe\xff\x00\xe0\0\0\0\0", b"\xfe\xff\xdd\xe0\0\0\0\0"


def saved(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    """The file of an image."""
    file = BytesIO()
    PIL.Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def jpeg_of_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive grey JPEG whose last scan, which changes nothing, is repeated."""
    whole = saved(np.zeros((height, width), np.uint8), "JPEG", progressive=True, quality=90)
    start, end = whole.rindex(b"\xff\xda"), whole.rindex(b"\xff\xd9")
    return whole[:start] + whole[start:end] * scans + whole[end:]


def jpeg_of_markers(markers: int) -> bytes:
    """A JPEG with many comments of no content."""
    whole = saved(np.zeros((8, 8), np.uint8), "JPEG")
    return whole[:2] + b"\xff\xfe\0\2" * markers + whole[2:]


def jpeg_with_hidden_size(width: int, height: int, shown: int, prefix: bytes) -> bytes:
    """A JPEG of width x height pixels, behind a segment in which readers that skip `prefix` see another size."""
    whole = saved(np.zeros((height, width), np.uint8), "JPEG")
    decoy = b"\xff\xc0\0\x0b\x08" + struct.pack(">HH", shown, shown) + b"\x01\x01\x11\x00"
    return whole[:2] + prefix + b"\xff\xfe" + struct.pack(">H", 2 + len(decoy)) + decoy + whole[2:]


def jpeg_2000_with_decoy(width: int, height: int, shown: int) -> bytes:
    """A JP2 file of width x height pixels, with another codestream's start in a box before its own."""
    whole = saved(np.zeros((height, width), np.uint8), "JPEG2000")
    size = struct.pack(">HHIIIIIIIIH", 41, 0, shown, shown, 0, 0, shown, shown, 0, 0, 1)
    decoy = b"\xff\x4f\xff\x51" + size
    box = struct.pack(">I4s", 8 + len(decoy), b"free") + decoy
    end = 12 + int.from_bytes(whole[12:16], "big")  # of the box with the file type
    return whole[:end] + box + whole[end:]


def tiff_of_one_strip(side: int, bits: int, samples: int = 1, floating: bool = True) -> bytes:
    """A deflated TIFF of side x side pixels, all of whose strips are one block of the file."""
    rows = max(1, 2**20 // (side * samples * bits // 8))
    strips = -(-side // rows)
    block = zlib.compress(bytes(rows * side * samples * bits // 8), 9)
    formats = [3 if floating else 1] * samples
    entries = [
        (256, 4, [side]),
        (257, 4, [side]),
        (258, 3, [bits] * samples),
        (259, 3, [8]),
        (262, 3, [1 if samples == 1 else 2]),
        (273, 4, [8] * strips),
        (277, 3, [samples]),
        (278, 4, [rows]),
        (279, 4, [len(block)] * strips),
        *([(338, 3, [2])] if samples == 4 else []),
        (339, 3, formats),
    ]
    block += bytes(len(block) % 2)
    return _tiff(block, entries)


def tiff_of_tiles(side: int, tile: int) -> bytes:
    """A TIFF of side x side pixels that declares tiles of tile x tile pixels."""
    count = (-(-side // tile)) ** 2
    entries = [
        (256, 4, [side]),
        (257, 4, [side]),
        (258, 3, [8]),
        (259, 3, [1]),
        (262, 3, [1]),
        (277, 3, [1]),
        (322, 4, [tile]),
        (323, 4, [tile]),
        (324, 4, [8] * count),
        (325, 4, [16] * count),
    ]
    return _tiff(bytes(16), entries)


def _tiff(block: bytes, entries: list[tuple[int, int, list[int]]]) -> bytes:
    """A little-endian TIFF: the block, then the directory of (tag, type, values)."""
    start = 8 + len(block)
    place, table, values = start + 2 + 12 * len(entries) + 4, b"", b""
    for tag, kind, numbers in entries:
        packed = struct.pack(f"<{len(numbers)}{'HI'[kind - 3]}", *numbers)
        if len(packed) <= 4:
            field = packed.ljust(4, b"\0")
        else:
            field, values = struct.pack("<I", place + len(values)), values + packed
        table += struct.pack("<HHI", tag, kind, len(numbers)) + field
    directory = struct.pack("<H", len(entries)) + table + bytes(4) + values
    return b"II*\0" + struct.pack("<I", start) + block + directory


def png_of_zeros(side: int, depth: int = 8, colour: int = 0) -> bytes:
    """A PNG of side x side pixels, all zero."""
    row = 1 + side * (depth // 8) * {0: 1, 2: 3, 6: 4}[colour]
    packer = zlib.compressobj(9)
    idat = b"".join(packer.compress(bytes(row)) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", idat), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def png_of_chunks(chunks: int) -> bytes:
    """A PNG with many chunks of no content."""
    whole = saved(np.zeros((8, 8), np.uint8), "PNG")
    return whole[:33] + _chunk(b"IDAT", b"") * chunks + whole[33:]


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def dicom(tail: bytes = b"", deflate: bool = False, **attributes: object) -> bytes:
    """A DICOM file of 16 x 16 pixels that ends with the elements in `tail`; `deflate` them as PS3.5, A.5."""
    dataset = Dataset()
    dataset.SOPClassUID, dataset.SOPInstanceUID = CTImageStorage, "1.2.3"
    dataset.Rows = dataset.Columns = 16
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8
    dataset.HighBit, dataset.PixelRepresentation = 7, 0
    dataset.PixelData = bytes(range(256))
    dataset["PixelData"].VR = "OW"
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = CTImageStorage
    dataset.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    if not deflate:
        return _written(dataset) + tail
    plain = _written(dataset)
    length = struct.unpack_from("<I", plain, 140)[0]  # of the file meta information
    body = plain[144 + length :] + tail
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    whole = _written(dataset)
    meta = whole[: 144 + struct.unpack_from("<I", whole, 140)[0]]
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return meta + packer.compress(body) + packer.flush()


def dicom_of_items(items: int, deflate: bool = True) -> bytes:
    """A DICOM file with a sequence of many empty items."""
    return dicom(b"\xe1\x7f\x10\x10SQ\0\0\xff\xff\xff\xff" + ITEM * items + END_OF_SEQUENCE, deflate)


def dicom_of_elements(elements: int, deflate: bool = False) -> bytes:
    """A DICOM file with many empty private elements."""
    return dicom(private_elements(elements), deflate)


def dicom_of_sequence(elements: int, *, shared: int = 0) -> bytes:
    """A DICOM file with functional groups, sequences of explicit length, that have many empty private elements."""
    tail = b""
    for tag, count in ((b"\x00\x52\x29\x92", shared), (b"\x00\x52\x30\x92", elements)):
        content = private_elements(count)
        item = b"\xfe\xff\x00\xe0" + struct.pack("<I", len(content)) + content
        tail += tag + b"SQ\0\0" + struct.pack("<I", len(item)) + item if count else b""
    return dicom(tail)


def private_elements(elements: int) -> bytes:
    """Empty private elements."""
    numbers = np.arange(elements)
    table = np.zeros((elements, 8), np.uint8)
    table[:, 0], table[:, 1] = 0xE1 + 2 * (numbers // 65536 % 8), 0x7F
    table[:, 2], table[:, 3] = numbers % 256, numbers // 256 % 256
    table[:, 4:6] = (ord("L"), ord("O"))
    return table.tobytes()


def dicom_of_stream(stream: bytes, rows: int, columns: int, syntax: str) -> bytes:
    """A DICOM file with one compressed frame."""
    dataset = Dataset()
    dataset.SOPClassUID, dataset.SOPInstanceUID = CTImageStorage, "1.2.3"
    dataset.Rows, dataset.Columns = rows, columns
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8
    dataset.HighBit, dataset.PixelRepresentation = 7, 0
    dataset.PixelData = encapsulate([stream])
    dataset["PixelData"].VR = "OB"
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = CTImageStorage
    dataset.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    dataset.file_meta.TransferSyntaxUID = syntax
    return _written(dataset)


def _written(dataset: Dataset) -> bytes:
    file = BytesIO()
    dcmwrite(file, dataset, enforce_file_format=True)
    return file.getvalue()

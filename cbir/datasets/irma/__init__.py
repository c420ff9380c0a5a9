"""The IRMA benchmark (ImageCLEF medical annotation 2005 to 2009): releases, codes, code tree.

Images, labels and tree are the user's own copies: their licence forbids to pass them on.
"""

from cbir.datasets.irma.code_tree import CodeTree
from cbir.datasets.irma.codes import AXES, CLUTTER, UNKNOWN, code_digits, parse_code, strip_zeros
from cbir.datasets.irma.release import IrmaImage, Release, read_release

__all__ = ["AXES", "CLUTTER", "UNKNOWN", "CodeTree", "IrmaImage", "Release", "strip_zeros", "code_digits", "parse_code", "read_release"]

"""IRMA benchmark (ImageCLEF medical annotation 2005 to 2009): releases, codes, code tree.

Users need their copy of images, labels and tree: the licence forbids redistribution.
"""

from cbir.evaluation.datasets.irma.code_tree import CodeTree
from cbir.evaluation.datasets.irma.codes import CLUTTER, UNKNOWN, code_digits, parse_code, strip_zeros
from cbir.evaluation.datasets.irma.release import read_release

__all__ = ["CLUTTER", "UNKNOWN", "CodeTree", "code_digits", "parse_code", "read_release", "strip_zeros"]

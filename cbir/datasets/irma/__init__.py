"""The IRMA benchmark (ImageCLEF medical annotation 2005 to 2009): releases, codes, code tree.

Images, labels and tree are the user's own copies: their licence forbids to pass them on.
"""

from cbir.datasets.irma.codes import AXES, CLUTTER, UNKNOWN, bare, digits, parse
from cbir.datasets.irma.release import Item, Release, read
from cbir.datasets.irma.tree import CodeTree

__all__ = ["AXES", "CLUTTER", "UNKNOWN", "CodeTree", "Item", "Release", "bare", "digits", "parse", "read"]

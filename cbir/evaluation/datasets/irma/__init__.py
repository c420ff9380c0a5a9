"""IRMA benchmark (ImageCLEF medical annotation 2005 to 2009): releases, codes, code tree.

Users need their copy of images, labels and tree: the licence forbids redistribution.
"""

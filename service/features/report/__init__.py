"""Similar images as a DICOM Structured Report."""

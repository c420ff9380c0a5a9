"""DICOM instances that come over the network."""

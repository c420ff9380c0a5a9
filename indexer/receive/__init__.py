"""DICOM storage service (PS3.4, annex B) that adds received instances to a collection."""

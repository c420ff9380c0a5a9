"""A DICOM storage service (PS3.4, annex B) that brings what it is sent into a collection."""

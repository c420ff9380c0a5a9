"""Brings the images of an archive into a collection over DICOMweb (PS3.18): QIDO-RS lists, WADO-RS fetches."""

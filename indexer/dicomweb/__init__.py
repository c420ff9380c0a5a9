"""Add the images of a DICOMweb archive (PS3.18) to a collection: QIDO-RS lists, WADO-RS fetches."""

"""DICOM instances that come over the network: decoded in processes of their own, committed together."""

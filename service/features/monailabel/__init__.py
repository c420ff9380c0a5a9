"""The part of MONAI Label's server that its plugins use for active learning: next samples, and segmentations."""

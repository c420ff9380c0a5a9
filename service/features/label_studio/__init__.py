"""Pairs of images for Label Studio, and its answers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="label-studio",
)

"""Measuring how good answers are."""

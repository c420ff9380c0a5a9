"""Deletion of images and patients: what goes with them, and by whom."""

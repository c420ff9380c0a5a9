"""Losses, models, training, severity, grading."""

"""Loops, samplers, checkpoints: needs the extra `deep`."""

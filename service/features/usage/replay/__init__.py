"""`cbir evaluate replay`: searches of the usage log, again."""

"""How well scores put the positive images before the negative ones. A measure is a file here."""

from cbir.evaluation.triage.auc import auc
from cbir.evaluation.triage.pos_at_top import above_every_negative, pos_at_top
from cbir.evaluation.triage.roc import Roc, roc

__all__ = ["Roc", "above_every_negative", "auc", "pos_at_top", "roc"]

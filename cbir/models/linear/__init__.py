"""Linear functions that rank positives above negatives, on features that are given. Needs no torch."""

from cbir.models.linear.rank_svm import RankSvm
from cbir.models.linear.top_push import TopPush

__all__ = ["RankSvm", "TopPush"]

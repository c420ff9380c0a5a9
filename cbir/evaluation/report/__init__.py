"""The report: one HTML file with style, charts and pictures inside, which needs no script and no network."""

from cbir.evaluation.report.page import write_report
from cbir.evaluation.report.pictures import Pictures

__all__ = ["Pictures", "write_report"]

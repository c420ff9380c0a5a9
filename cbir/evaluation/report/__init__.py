"""The report: one HTML file with style, charts and pictures inside, which needs no script and no network."""

from cbir.evaluation.report.report_page import write_report
from cbir.evaluation.report.report_pictures import ReportPictures

__all__ = ["ReportPictures", "write_report"]

"""The reports of the suite: one result for programs, for CI systems, for readers and for a terminal."""

from ao_conformance.reports.terminal import terminal_text, wants_colours
from ao_conformance.reports.writing import REPORT_KINDS, ReportNotWritten, write_report

__all__ = ["REPORT_KINDS", "ReportNotWritten", "terminal_text", "wants_colours", "write_report"]

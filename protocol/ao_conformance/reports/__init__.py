"""The reports of the suite: one result for programs, for CI systems, for readers and for a terminal."""

from ao_conformance.reports.table import table_text
from ao_conformance.reports.terminal import terminal_text, wants_colours
from ao_conformance.reports.writing import NAME, REPORT_KINDS, TABLE, ReportNotWritten, write_report

__all__ = [
    "NAME",
    "REPORT_KINDS",
    "TABLE",
    "ReportNotWritten",
    "table_text",
    "terminal_text",
    "wants_colours",
    "write_report",
]

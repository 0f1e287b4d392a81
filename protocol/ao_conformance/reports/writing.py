"""The kinds of reports, and how a report is written to its file: completely or not at all."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ao_conformance.reports.documents import badge_text, document_text, junit_text
from ao_conformance.reports.pages import html_text, markdown_text
from ao_conformance.reports.table import table_text
from ao_conformance.verdict import SuiteResult

STDOUT: Final = Path("-")
TABLE: Final = "table"
NAME: Final = "{name}"
"""In the path of a report, the place of the executor's name: of several executors each has a report of its own."""
REPORT_KINDS: Final[Mapping[str, Callable[[SuiteResult], str]]] = {
    "json": document_text,
    "junit": junit_text,
    "markdown": markdown_text,
    "html": html_text,
    "badge": badge_text,
    TABLE: lambda result: table_text([result]),
}
"""The function that makes the text of each kind for one result."""


class ReportNotWritten(Exception):
    """The file of a report could not be written."""


def write_report(kind: str, path: Path, results: Sequence[SuiteResult]) -> None:
    """Write the reports of one kind: the table of all results, or a report for each result.

    Raises:
        ReportNotWritten: A file cannot be written.
    """
    if kind == TABLE:
        _write(path, table_text(results))
        return
    for result in results:
        _write(Path(str(path).replace(NAME, result.name.replace("/", "_"))), REPORT_KINDS[kind](result))


def _write(path: Path, text: str) -> None:
    """Write one report as UTF-8.

    A file is written completely or not at all. Its folder is created, and an existing file is replaced. The path `-` is
    stdout. A device or a pipe is written to directly.

    Raises:
        ReportNotWritten: The file cannot be written.
    """
    content = text.encode()
    if path == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    target = path.resolve()
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_device(path):
            path.write_bytes(content)
            return
        try:
            unfinished.write_bytes(content)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "name a file in a folder that you may write"
        raise ReportNotWritten(f"cannot write the report {str(path)!r}: {reason}; {advice}") from error


def is_device(path: Path) -> bool:
    """Return whether a path is that of a device or a pipe, to which several texts can be written."""
    return path.exists() and not path.is_file()

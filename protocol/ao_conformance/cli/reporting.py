"""The reports that a tester asks for: refused before anything is played, and given once the result is there."""

import errno
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import click

from ao_conformance.reports import REPORT_KINDS, ReportError, terminal_text, wants_colours, write_report
from ao_conformance.reports.writing import is_device
from ao_conformance.verdict import SuiteResult

EXIT_NOT_GIVEN: Final = 2
STDOUT: Final = Path("-")

AskedReport = tuple[str, Path]
"""Its kind and its file."""


def parsed_reports(context: click.Context, option: click.Parameter, given: Sequence[str]) -> list[AskedReport]:
    """Return kind and file of each `--report`, where it can be written and no other one is."""
    asked = [_parsed(text, context, option) for text in given]
    for path, reports in Counter(path for _, path in asked if not is_device(path)).items():
        if reports > 1:
            wrong = f"{reports} reports go to {'stdout' if path == STDOUT else path}; give each a file of its own"
            raise click.BadParameter(wrong, context, option)
    return asked


def _parsed(text: str, context: click.Context, option: click.Parameter) -> AskedReport:
    kind, equals, name = text.partition("=")
    path = Path(name)
    try:
        if not equals or not name or kind not in REPORT_KINDS:
            wrong = f"{text!r} is not KIND=FILE with one of {', '.join(REPORT_KINDS)}"
        elif name.endswith("/") or path.is_dir():
            wrong = f"{name} is a directory; name a file in it, such as {path / f'report.{kind}'}"
        else:
            _try_to_write(path)
            return kind, path
    except OSError as error:
        wrong = f"{name} cannot be written: {error.strerror or error}"
    raise click.BadParameter(wrong, context, option)


def _try_to_write(path: Path) -> None:
    """Raise `OSError` where a report could not be written; leave nothing behind."""
    if path == STDOUT:
        return
    if is_device(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        folder = folder.parent
    with TemporaryFile(dir=folder):
        return


def finish(context: click.Context, result: SuiteResult, asked: Sequence[AskedReport]) -> None:
    """Print the result, write the reports, and exit as the result says.

    What could not be written keeps nothing else from being written, and makes an exit of 0 one of 2.
    """
    failures = [failure for give in _to_give(result, asked) if (failure := _failure_of(give))]
    for failure in failures:
        click.echo(f"Error: {failure}", err=True)
    context.exit(result.exit_code or (EXIT_NOT_GIVEN if failures else 0))


def _to_give(result: SuiteResult, asked: Sequence[AskedReport]) -> Iterator[Callable[[], None]]:
    if not any(path == STDOUT for _, path in asked):
        yield partial(_print, result)
    for kind, path in asked:
        yield partial(write_report, kind, path, result)


def _print(result: SuiteResult) -> None:
    columns = shutil.get_terminal_size().columns
    click.echo(terminal_text(result, colours=wants_colours(sys.stdout), columns=columns), nl=False, color=True)


def _failure_of(give: Callable[[], None]) -> str | None:
    """Give a text and return why it could not be given; a reader of stdout who is gone has seen enough."""
    try:
        give()
    except ReportError as error:
        return str(error)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if error.errno == errno.EPIPE else f"stdout cannot be written: {error.strerror or error}"
    return None

"""The options that commands below `ao conformance` share, their progress, their reports, and usage errors."""

import errno
import json
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, TypeVar

import click

from ao_conformance.masking import masked, redactor_of
from ao_conformance.reports import (
    REPORT_KINDS,
    ReportNotWritten,
    table_text,
    terminal_text,
    wants_colours,
    write_report,
)
from ao_conformance.reports.writing import is_device
from ao_conformance.subject import USUAL_SHELL_TOOL
from ao_conformance.tally import KnownFailing, KnownFailingError, load_known_failing
from ao_conformance.vectors import requirements_by_id
from ao_conformance.verdict import BROKEN, SuiteResult, VectorResult
from ao_protocol.addresses import is_secret_name
from ao_protocol.redaction import MASK

EXIT_NOT_GIVEN: Final = 2
STDOUT: Final = Path("-")
EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
only_option: Final = click.option(
    "--only", multiple=True, metavar="ID", help="Run only this vector, or the vectors of this requirement. Repeatable."
)
known_failing_option: Final = click.option(
    "--known-failing",
    type=EXISTING_FILE,
    metavar="FILE",
    help="File with ids that are known to fail, one per line; an id that passes is reported as stale.",
)
base_option: Final = click.option(
    "--base",
    type=EXISTING_FILE,
    metavar="FILE",
    help="JSON object with defaults for each invocation, such as an executor_config.",
)
shell_tool_option: Final = click.option(
    "--shell-tool",
    metavar="NAME:FIELD",
    default=":".join(USUAL_SHELL_TOOL),
    show_default=True,
    help="Tool of the executor that runs a command, and the field of its input with the command.",
)
variables_option: Final = click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable for the executor. Nothing shows its value if NAME is that of a secret. Repeatable.",
)
list_option: Final = click.option("--list", "lists", is_flag=True, help="List the vectors and exit.")
quiet_option: Final = click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
AskedReport = tuple[str, Path]
"""The kind and the file of a report."""


def parsed_reports(context: click.Context, option: click.Parameter, given: Sequence[str]) -> list[AskedReport]:
    """Return kind and file of each `--report`.

    Raises:
        click.BadParameter: A kind is unknown, a file cannot be written, or several reports have the same file.
    """
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
    """Raise `OSError` if a report cannot be written; leave nothing behind."""
    if path == STDOUT or (is_device(path) and os.access(path, os.W_OK)):
        return
    if is_device(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        folder = folder.parent
    with TemporaryFile(dir=folder):
        return


def finish(context: click.Context, results: Sequence[SuiteResult], asked: Sequence[AskedReport]) -> None:
    """Print the results, write the reports, and exit with the worst code. Nothing shows a secret of the tester.

    One failed write does not prevent the others. It turns an exit code of 0 into 2.
    """
    redactor = redactor_of({**os.environ, **read_variables(context.params.get("variables", ()))})
    results = [masked(result, redactor) for result in results]
    to_give = [partial(write_report, kind, path, results) for kind, path in asked]
    if not any(path == STDOUT for _, path in asked):
        to_give.insert(0, partial(_print, results))
    failures = [failure for give in to_give if (failure := _failure_of(give))]
    for failure in failures:
        click.echo(f"Error: {failure}", err=True)
    code = max(result.exit_code for result in results)
    context.exit(code or (EXIT_NOT_GIVEN if failures else 0))


def _print(results: Sequence[SuiteResult]) -> None:
    columns = shutil.get_terminal_size().columns
    for result in results:
        click.echo(terminal_text(result, colours=wants_colours(sys.stdout), columns=columns), nl=False, color=True)
    if len(results) > 1:
        click.echo(f"\n{table_text(results)}", nl=False)


def _failure_of(give: Callable[[], None]) -> str | None:
    """Write an output and return why that failed. A closed reader of stdout is no failure."""
    try:
        give()
    except ReportNotWritten as error:
        return str(error)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if error.errno == errno.EPIPE else f"stdout cannot be written: {error.strerror or error}"
    return None


class Progress:
    """Counts the vectors that were played, and on a terminal shows the counts as they change."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._shows = sys.stderr.isatty() and not quiet
        self._done = self._failed = 0
        self._lock = threading.Lock()

    def tell(self, result: VectorResult) -> None:
        """Count a vector. Any thread may call it."""
        with self._lock:
            self._done += 1
            self._failed += result.verdict in BROKEN
            failed = f", {self._failed} failed" if self._failed else ""
            self._show(f"{self._done}/{self._total}{failed}  {result.title}")

    def close(self) -> None:
        """Clear the count."""
        self._show("")

    def _show(self, text: str) -> None:
        if self._shows:
            line = f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}"
            click.echo(line.encode(), nl=False, err=True)  # as bytes, since `ao` lets no text move the cursor


def not_started(program: str, error: OSError) -> click.UsageError:
    """Return the error for a command whose program could not be started."""
    found = shutil.which(program)
    if Path(program).is_dir() and found is None:
        return click.UsageError(_of_directory(program))
    return click.UsageError(f"{program} cannot be started: {_reason(program, Path(found or program), error)}")


def _of_directory(program: str) -> str:
    typed = program.rstrip("/") if "/" in program else f"./{program}"
    inside = sorted(Path(program).glob("ao-*-exec"))
    executables = [f"{typed}/{path.name}" for path in inside if path.is_file() and os.access(path, os.X_OK)]
    match executables:
        case []:
            advice = "name the program that it should start"
        case [executable]:
            advice = f"its executable is {executable}"
        case _:
            advice = f"name one of its executables: {', '.join(executables)}"
    return f"{program} is a directory; {advice}"


def _reason(program: str, path: Path, error: OSError) -> str:
    match error.errno:
        case errno.ENOEXEC:
            return "it is neither a program for this machine nor a script whose first line begins with #!"
        case errno.EACCES if path.exists():
            return f"it is not executable; try: chmod +x {program}"
        case errno.ENOENT if "/" not in program and path == Path(program):
            here = f"; the file in this directory is ./{program}" if path.exists() else ""
            return f"there is no such command{here}"
        case errno.ENOENT if path.exists():
            return "the interpreter in its #! line does not exist, or a library that it needs"
        case errno.ENOENT:
            return "there is no such file"
    return error.strerror or str(error)


Command = TypeVar("Command", bound=Callable[..., Any])


report_option: Final = click.option(
    "--report",
    "reports",
    multiple=True,
    callback=parsed_reports,
    metavar="KIND=FILE",
    help=f"Write a report: {', '.join(REPORT_KINDS)}. Missing folders are created; - is stdout. Repeatable.",
)


def number_option(name: str, default: int, text: str, *, most: int) -> Callable[[Command], Command]:
    """Return an option for a number from 1 to `most`."""
    return click.option(name, type=click.IntRange(1, most), default=default, show_default=True, help=text)


def jobs_option(default: int) -> Callable[[Command], Command]:
    """Return the option for the number of vectors that are played concurrently."""
    return number_option("--jobs", default, "Number of vectors to run concurrently.", most=64)


def read_known_failing(path: Path | None, vectors: Iterable[str]) -> KnownFailing:
    """Return the known failures that a file lists: requirements, or vectors with these ids.

    Raises:
        click.BadParameter: The file lists another id.
    """
    if path is None:
        return KnownFailing()
    try:
        return load_known_failing(path, frozenset({*requirements_by_id(), *vectors}))
    except KnownFailingError as error:
        raise click.BadParameter(str(error), param_hint="--known-failing") from error


def read_base(path: Path | None) -> Mapping[str, Any]:
    """Return the defaults for invocations from a file.

    Raises:
        click.BadParameter: The file does not contain a JSON object.
    """
    if path is None:
        return {}
    try:
        base = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--base") from error
    if not isinstance(base, dict):
        raise click.BadParameter(f"{path} does not contain a JSON object", param_hint="--base")
    return base


def read_variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables of `--env`.

    Raises:
        click.BadParameter: An argument is not NAME=VALUE.
    """
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE", param_hint="--env")
    return dict(text.split("=", 1) for text in given)


def read_shell_tool(text: str) -> tuple[str, str]:
    """Return the name and the field of `--shell-tool`.

    Raises:
        click.BadParameter: The argument is not NAME:FIELD.
    """
    name, _, field = text.rpartition(":")
    if not name or not field:
        raise click.BadParameter(f"{text!r} is not NAME:FIELD", param_hint="--shell-tool")
    return name, field


def repeated(
    *, base: Path | None, variables: Sequence[str], shell_tool: tuple[str, str] = USUAL_SHELL_TOOL
) -> tuple[str, ...]:
    """Return the options of `run` that change the test, for the line that reproduces a failure."""
    tool = () if shell_tool == USUAL_SHELL_TOOL else ("--shell-tool", ":".join(shell_tool))
    told = [
        f"{name}={MASK}" if is_secret_name(name) else f"{name}={value}"
        for name, value in read_variables(variables).items()
    ]
    return (*(("--base", str(base)) if base else ()), *tool, *(part for text in told for part in ("--env", text)))

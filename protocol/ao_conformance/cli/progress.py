"""What is said while vectors are played: a line that is rewritten on a terminal, nothing elsewhere."""

import shutil
import sys
import threading
from types import TracebackType
from typing import Self

import click

from ao_conformance.verdict import VectorResult, Verdict


class Progress:
    """Counts the vectors that were played; on a terminal it shows the count and every failure at once."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._shows = sys.stderr.isatty() and not quiet
        self._done = 0
        self._failed = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows:
            click.echo("\r\x1b[K", nl=False, err=True)

    def tell(self, result: VectorResult) -> None:
        """Count a vector. Any thread may call it."""
        with self._lock:
            self._done += 1
            self._failed += result.verdict in {Verdict.FAIL, Verdict.UNTESTABLE, Verdict.HARNESS_ERROR}
            if self._shows:
                failed = f", {self._failed} failed" if self._failed else ""
                text = f"{self._done}/{self._total}{failed}  {result.title}"
                click.echo(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", nl=False, err=True)

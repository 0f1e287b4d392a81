"""The progress of a run on a terminal, where what goes on is drawn below what is past."""

import time
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ao_protocol.events import OutputValidation
from ao_protocol.lifecycle import note_calls
from ao_runner.cli.message_tail import MessageTail
from ao_runner.cli.printing import console, plain_text, shorten
from ao_runner.cli.progress_lines import ProgressLine
from ao_runner.cli.run_progress import PlainProgress, only_progress_is_lost
from ao_runner.run_events import Relayed
from ao_runner.runs.narration import Severity

STYLES: Final[dict[Severity, str]] = {
    "plain": "", "dim": "dim", "good": "green", "warning": "yellow", "fault": "yellow", "error": "red"
}  # fmt: skip


class LiveProgress(PlainProgress):
    """The progress of a run on a terminal: past events, the message that is being written, and the current activity."""

    def __init__(self, attempts: int | None, *, is_verbose: bool) -> None:
        super().__init__(stop=lambda: None, is_verbose=is_verbose)
        self._attempt, self._attempts = 1, attempts
        self._doing = "starting"
        self._open_tools: dict[str, str] = {}
        self._writing = MessageTail()
        self._console: Console = console(err=True)
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._status, console=self._console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Draw nothing below the past events, for a prompt."""
        with only_progress_is_lost():
            self._live.stop()

    def resume(self) -> None:
        """Draw the current activity again."""
        self._live.start()

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event, and update the current activity."""
        lines, body = self._narrator.tell(relayed), relayed.body
        entry = self._narrator.narration.last
        self._writing.receive(body, len(entry.path))
        for line in lines:
            self._print(line)
        note_calls(relayed.document, self._open_tools, {})
        self._doing = entry.doing or self._doing
        if isinstance(body, OutputValidation):
            self._attempts = body.attempt + body.retries_left
            self._attempt = min(body.attempt + (not body.valid), self._attempts)

    def _print(self, line: ProgressLine) -> None:
        text = Text(plain_text(f"{line.mark} {line.text}"), style=STYLES[line.severity])
        with only_progress_is_lost():
            if self._is_verbose or line.severity in {"warning", "fault", "error"}:
                self._console.print(text, soft_wrap=True)
            else:
                self._console.print(text, no_wrap=True, overflow="ellipsis")

    def _status(self) -> RenderableType:
        doing = f"running {shorten(', '.join(self._open_tools.values()))}" if self._open_tools else self._doing
        attempt = f" · attempt {self._attempt} of {self._attempts}" if self._attempts else ""
        elapsed = int(time.monotonic() - self._began_at)
        self._spinner.update(text=Text(f"{doing}{attempt} · {elapsed // 60}:{elapsed % 60:02d}", style="cyan"))
        return Group(*self._writing.lines(self._console), self._spinner)

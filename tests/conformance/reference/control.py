"""What the runner says on stdin behind the invocation: cancel, turn, shutdown, and its end (SPEC 4.4)."""

from collections import deque
from typing import Any

from ijson import NotIJson, decode_object
from stdin import LineTooLong, Stdin


class Control:
    """Takes control lines in their order; `take_lines` stops at a cancel, so that the next run does not meet it."""

    def __init__(self, stdin: Stdin) -> None:
        self._stdin = stdin
        self.is_open = False
        self.takes_turns = False
        self.takes_input = False
        self.answers: deque[dict[str, Any]] = deque()
        self.turns: deque[dict[str, Any]] = deque()
        self.is_cancelled = False
        self.is_shut_down = False

    def open(self, control: dict[str, Any]) -> None:
        """Listen as the invocation says."""
        self.is_open = control.get("stdin") == "open"
        self.takes_turns = self.is_open and control.get("turns") is True
        self.takes_input = self.is_open and control.get("input") is True

    @property
    def listens(self) -> bool:
        """Say whether something may still come."""
        return self.is_open and not self._stdin.has_ended

    @property
    def runner_is_gone(self) -> bool:
        """Say whether the end of stdin told that nobody wants the run any more."""
        return self.is_open and self._stdin.has_ended and not self._stdin.is_regular_file()

    def has_answers(self) -> bool:
        """Say whether an answer, or a `park`, has come."""
        self.take_lines()
        return bool(self.answers)

    def forget_answers(self) -> None:
        """Drop what came while nothing was asked."""
        self.take_lines()
        self.answers.clear()

    def take_lines(self) -> None:
        """Act on the lines that are there, up to a cancel."""
        while self.is_open and not self.is_cancelled:
            try:
                line = self._stdin.take_line()
            except LineTooLong:
                self.is_open = False
                return
            if line is None:
                return
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = decode_object(line)
        except NotIJson:
            return
        match said:
            case {"type": "cancel"} if isinstance(said.get("reason"), str | None):
                self.is_cancelled = True
            case {"type": "input_response", "request_id": str(request_id)} if request_id:
                self.answers.append(said)
            case {"type": "park", **more} if isinstance(more.get("reason"), str | None):
                self.answers.append(said)
            case {"type": "shutdown"} if self.takes_turns:
                self.is_shut_down = True
            case {"type": "turn", "run_id": str(run_id), "parameters": dict()} if self.takes_turns and run_id:
                if isinstance(prompt := said.get("prompt", "none"), str) and prompt:
                    self.turns.append(said)

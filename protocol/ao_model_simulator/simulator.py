"""The simulator as a `with` block: listening inside, gone after."""

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ao_model_simulator.endpoints import base_url
from ao_model_simulator.model_request import RecordedRequest, Verdict
from ao_model_simulator.script import Script
from ao_model_simulator.script_file import fill_text_files, load_script
from ao_model_simulator.server import LoopbackServer
from ao_model_simulator.simulation import Simulation


class ScriptNotSatisfied(AssertionError):
    """The requests were not those that the script describes."""


class ModelSimulator:
    """Model APIs on 127.0.0.1 that answer from a script, for as long as the `with` block lasts.

    Nothing is left running after the block, whatever the clients do: open streams and stalls are ended.
    """

    def __init__(self, script: Script | Path | str, *, port: int = 0, record_file: Path | None = None) -> None:
        """Read the script; the `with` block listens.

        Args:
            script: The path of a script file, or a `Script`, whose `text_file`s are relative to the working folder.
            port: The port to listen on; 0 picks a free one.
            record_file: Gets one JSON line per request, at once.

        Raises:
            ScriptError: The script cannot be used.
        """
        if isinstance(script, Script):
            self.script = fill_text_files(script, Path("the script"))
        else:
            self.script = load_script(Path(script))
        self._port = port
        self._record_path = record_file
        self._record_file: IO[str] | None = None
        self._record_lock = threading.Lock()
        self._simulation = Simulation(self.script, self._write_record)
        self._server: LoopbackServer | None = None

    def __enter__(self) -> Self:
        """Listen.

        Raises:
            CannotListen: The port is taken or not allowed. An `OSError`.
            OSError: The record file cannot be opened.
        """
        if self._record_path is not None:
            self._record_file = self._record_path.open("a", encoding="utf-8")
        try:
            self._server = LoopbackServer(self._simulation.reply_to, self._port)
        except OSError:
            self._close_record_file()
            raise
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._simulation.close()
        if self._server is not None:
            self._server.close()
        self._close_record_file()

    @property
    def url(self) -> str:
        """Where it listens, without a path; `base_url` has what a client wants to be told."""
        if self._server is None:
            raise RuntimeError("the simulator listens inside its with block only")
        return self._server.url

    def base_url(self, kind: str) -> str:
        """Return the base URL for the official client of an API: OpenAI's, for one, ends in `/v1`.

        Args:
            kind: `anthropic`, `openai-chat`, `openai-responses` or `gemini`.

        Raises:
            UnknownKind: No simulated API has this name.
        """
        return base_url(kind, self.url)

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """What the model was asked, through whichever API, answered or not."""
        return tuple(record for record in self._simulation.records if record.kind is not None)

    @property
    def all_requests(self) -> tuple[RecordedRequest, ...]:
        """Everything that was received, probes, lists of models and token counts included."""
        return self._simulation.records

    @property
    def unexpected(self) -> tuple[RecordedRequest, ...]:
        """The requests for which the script has no answer."""
        return self._with_verdict(Verdict.UNEXPECTED)

    @property
    def mismatches(self) -> tuple[RecordedRequest, ...]:
        """The requests that did not hold what the next answer expects."""
        return self._with_verdict(Verdict.MISMATCHED)

    @property
    def answers_left(self) -> int:
        """How many answers were not given yet."""
        return self._simulation.answers_left

    def wait_for_requests(self, count: int, timeout_seconds: float) -> bool:
        """Wait until the model has received a number of requests, through any API.

        Returns:
            Whether it received them within `timeout_seconds`.
        """
        return self._simulation.wait_for_model_requests(count, timeout_seconds)

    def find_problems(self, *, strict: bool = False) -> list[str]:
        """Return one sentence per request that was not as scripted; when strict, also for unused answers."""
        problems = [text for record in self.all_requests for text in record.problems]
        if strict and self.answers_left:
            problems.append(f"{self.answers_left} of the script's answers were not asked for")
        return problems

    def require_satisfied(self, *, strict: bool = True) -> None:
        """Require that every request was as scripted and, when strict, that every answer was used.

        Raises:
            ScriptNotSatisfied: With one line for each problem.
        """
        if problems := self.find_problems(strict=strict):
            raise ScriptNotSatisfied("\n".join(problems))

    def _with_verdict(self, verdict: Verdict) -> tuple[RecordedRequest, ...]:
        return tuple(record for record in self._simulation.records if record.verdict is verdict)

    def _write_record(self, record: RecordedRequest) -> None:
        with self._record_lock:
            if self._record_file is not None:
                self._record_file.write(json.dumps(record.as_json()) + "\n")
                self._record_file.flush()

    def _close_record_file(self) -> None:
        with self._record_lock:
            if self._record_file is not None:
                self._record_file.close()
                self._record_file = None

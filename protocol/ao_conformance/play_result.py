"""The observations of one play, without judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_conformance.driver.transcript import OutputLine
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import TranscriptEntry

DESCRIBE_SECONDS: Final = 1.2
"""SPEC 7 allows a second, without what the process waited for the CPU; the rest is for starting and reading."""


@dataclass(slots=True)
class PlayResult:
    """The observations of one play. Moments are in seconds since it began."""

    vector: ProcessVector
    invocation: Mapping[str, object] | None
    """The invocation of the judged process; None if its stdin has no invocation."""
    project_dir: Path
    lines: list[OutputLine] = field(default_factory=list)
    unfinished_line: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    exited_at: float | None = None
    stdout_ended_at: float | None = None
    asked_at: float = 0.0
    """When the first byte of the invocation was written; output before that is unasked."""
    began_clock: float = 0.0
    """When the play began, in seconds since 1970."""
    began_at: float = 0.0
    """When the invocation was written, or when the process was started if it gets none."""
    last_action_at: float = 0.0
    cancelled_at: float | None = None
    """When the first cancel or SIGTERM was sent."""
    turns: list[Mapping[str, Any]] = field(default_factory=list)
    """The `turn` lines that were written."""
    unreached: list[str] = field(default_factory=list)
    """The moments of actions that never came."""
    remarks: list[tuple[str, str]] = field(default_factory=list)
    """Problems that the player observed: the name of the check, and the problem."""
    left_behind: list[str] = field(default_factory=list)
    """Processes that were alive after the exit, as `pid: command line`."""
    killed: bool = False
    """Whether the suite had to end the process."""
    flooded: bool = False
    """Whether the process wrote more than the suite reads."""
    waits_for_events: bool = False
    """Whether a whole line was written and stdin is still open."""
    closed_at: float | None = None
    """When an action closed stdin."""
    left_with_stdin: bool = False
    """Whether the process outlived its run and exited when stdin was closed."""
    untaken_input: bool = False
    """Whether the process did not take all of the first write while it was alive."""
    workspace_changed: list[str] = field(default_factory=list)
    left_files: list[str] = field(default_factory=list)
    """New files in HOME, TMPDIR and the project directory, by the path below the folder of the play."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """The final content of the files in the project directory that the vector names; None for a missing file."""
    told_secret: list[str] = field(default_factory=list)
    """Places where the value of a secret variable was found."""
    working_seconds: float = 0.0
    """How long the process took from its start to its exit, without what it waited for the CPU (`play`)."""
    model_requests: int | None = None
    """The number of requests to the model; None if they are not counted."""
    model_asked_at: float | None = None
    """When the model was first asked; None if it was not, is not counted, or another process may have asked it."""
    model_problems: list[str] = field(default_factory=list)
    answers_left: int = 0
    asked: list[str] = field(default_factory=list)
    """What users have said in the conversation of each request to the model."""
    trace_ids: list[str | None] = field(default_factory=list)
    """The trace id of each request to the provider, probes included; None for a request without one."""
    expectations: list[Mapping[str, Any]] = field(default_factory=list)
    """The expectation of the vector and the alternatives that it allows, with placeholders filled in."""
    prior_lines: list[OutputLine] = field(default_factory=list)
    prior_exit_code: int | None = None
    transcript: tuple[TranscriptEntry, ...] = ()

    @property
    def takes_turns(self) -> bool:
        """Whether the process was asked to stay after its run."""
        return self.listens and self._control.get("turns") is True

    @property
    def listens(self) -> bool:
        """Whether the invocation opens stdin for control lines."""
        return self._control.get("stdin") == "open"

    @property
    def _control(self) -> Mapping[str, Any]:
        invocation = self.invocation or {}
        control = invocation.get("control")
        is_older = str(invocation.get("schema_version")).startswith("2.")
        return control if isinstance(control, dict) and not is_older else {}

"""What one play showed: everything that was seen, and no judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ao_conformance.driver.transcript import OutputLine
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import TranscriptEntry


@dataclass(slots=True)
class PlayResult:
    """Everything that one play showed."""

    vector: ProcessVector
    invocation: Mapping[str, object] | None
    """What was asked of the judged process; None where its stdin was no invocation."""
    project_dir: Path
    lines: list[OutputLine] = field(default_factory=list)
    unfinished_line: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    exited_at: float | None = None
    stdout_ended_at: float | None = None
    asked_at: float = 0.0
    """When the first byte of the invocation was written; what comes before it is said unasked."""
    began_clock: float = 0.0
    """When the play began, by the machine's clock."""
    began_at: float = 0.0
    """When the invocation had been written, or the process was started where there is none."""
    last_action_at: float = 0.0
    cancelled_at: float | None = None
    """When the run was asked to end."""
    unreached: list[str] = field(default_factory=list)
    """The moments of actions that never came."""
    remarks: list[tuple[str, str]] = field(default_factory=list)
    """What an action that looks at something saw: the action, and what was wrong."""
    left_behind: list[str] = field(default_factory=list)
    """Processes that lived after the exit, as `pid: command line`."""
    killed: bool = False
    """The suite had to end it."""
    flooded: bool = False
    """It wrote more than the suite reads."""
    waits_for_events: bool = False
    """A whole line was written, and stdin is open behind it."""
    closed_at: float | None = None
    """When an action closed stdin."""
    left_with_stdin: bool = False
    """It lived on behind its run, and left when stdin was closed."""
    untaken_input: bool = False
    """It did not take all of the first write while it lived."""
    workspace_changed: list[str] = field(default_factory=list)
    left_files: list[str] = field(default_factory=list)
    """What has come into HOME and TMPDIR, and into the project directory, by the path below the folder of the play."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """What stood at the end in the files of the project directory that the vector names; None where there is none."""
    told_secret: list[str] = field(default_factory=list)
    """Places where the value of a secret variable was found."""
    model_requests: int | None = None
    """None where nobody counts them."""
    model_asked_at: float | None = None
    """When the model was first asked; None where it was not, nobody counts, or another process may have asked."""
    model_problems: list[str] = field(default_factory=list)
    answers_left: int = 0
    trace_ids: list[str | None] = field(default_factory=list)
    """The trace of each request to the provider, probes included; None where it belongs to none."""
    expectations: list[Mapping[str, Any]] = field(default_factory=list)
    """What the vector expects and allows, its placeholders filled."""
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

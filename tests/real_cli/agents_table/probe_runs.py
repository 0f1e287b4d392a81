"""One run of an agent as `ao run` performs it, with a simulated model, and what a probe reads from it."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_model_simulator import ModelSimulator, RecordedRequest, Script
from tests.process.executors.driver import installed
from tests.process.runner.cli.calling import Ao, at_a_terminal
from tests.real_cli.agents_table.known_agents import PROGRAM, Agent
from tests.real_cli.agents_table.one_blueprint import PROCEDURAL

RUN_SECONDS: Final = 150.0
"""How long a run of a probe may take. The slowest, the first of OpenCode in a new home, takes 15 s."""
Event = dict[str, Any]


class NotSeen(Exception):  # what a probe found, not a fault of it
    """A run did not show what its probe looks for. The text is the run's own error, or what it did instead."""


@dataclass(frozen=True)
class Ended:
    """A run that has ended: its events, what the model received, and what `ao` wrote to stderr."""

    events: Sequence[Event]
    requests: Sequence[RecordedRequest]
    exit_code: int
    stderr: str = field(repr=False)

    @property
    def terminal(self) -> Event:
        """Return the last event; empty if there is none."""
        return self.events[-1] if self.events else {}

    @property
    def error(self) -> dict[str, Any]:
        """Return the error of the failure; empty for a result."""
        return dict(self.terminal.get("error") or {})

    def of_type(self, event_type: str) -> list[Event]:
        return [event for event in self.events if event["event_type"] == event_type]

    @property
    def why(self) -> str:
        """Return in one line why the run is no success."""
        if self.error:
            return f"{self.error['type']}: {self.error['message']}"
        if not self.events:
            return self.stderr.strip().removeprefix("Error: ") or f"exit code {self.exit_code} without an event"
        return f"the run ended as {self.terminal['event_type']}"

    def require_result(self) -> "Ended":
        """Return the run, or raise NotSeen with its own error."""
        if self.terminal.get("event_type") != "result":
            raise NotSeen(self.why)
        return self

    def require(self, is_so: object, otherwise: str) -> None:
        """Raise NotSeen with `otherwise`, and the run's own error if it has one."""
        if not is_so:
            raise NotSeen(f"{otherwise}; {self.why}" if self.error else otherwise if self.events else self.why)

    @property
    def warnings(self) -> list[str]:
        return [event["message"] for event in self.of_type("log") if event["level"] == "warning"]

    def sent_to_model(self, number: int = 0) -> str:
        """Return the whole body of a request as text; empty if it was not sent."""
        return json.dumps(self.requests[number].body, ensure_ascii=False) if len(self.requests) > number else ""


@dataclass(frozen=True)
class Bench:
    """The place of one agent's probes: a home that stays the same, and a project folder for each run."""

    agent: Agent
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def project(self, name: str, documents: Mapping[str, Any]) -> Path:
        """Return a new project folder with these documents as JSON files."""
        project = self.folder / name
        project.mkdir(parents=True)
        for document, content in documents.items():
            (project / f"{document}.json").write_text(json.dumps(content), encoding="utf-8")
        if not self.agent.kind:
            shutil.copy(PROGRAM, project)
        return project

    @property
    def worker(self) -> dict[str, Any]:
        """Return a blueprint without a contract; for a program, the one that it serves."""
        return PROCEDURAL if not self.agent.kind else {"name": "worker", "system_prompt": "You work."}

    def asked(self, text: str) -> list[str]:
        """Return the arguments of `ao run` for a prompt, or for the parameter of a program."""
        return ["-p", text] if self.agent.kind else ["--param", f"report={text}"]

    def profile(self, config: Mapping[str, Any], **fields: object) -> dict[str, Any]:
        """Return a profile whose configuration is that of all probes and `config`; None there leaves a field out."""
        model = {"model": self.agent.model} if self.agent.model else {}
        whole = {**model, **self.agent.config, **config}
        kept = {name: value for name, value in whole.items() if value is not None}
        return {"executor": self.agent.name, "config": kept, **self.agent.profile, **fields}

    def run(
        self,
        name: str,
        answers: Sequence[Any],
        *arguments: str,
        interrupt: "Interrupt | None" = None,
        resumes: bool = False,
        config: Mapping[str, Any] | None = None,
        blueprint: Mapping[str, Any] | None = None,
        **fields: object,
    ) -> Ended:
        """Perform a run with `--events`.

        Args:
            name: The project folder, a new one. With `resumes` that of an earlier run, whose session is continued.
            answers: The answers of the model.
            arguments: Further arguments of `ao run`.
            interrupt: When to send the signal of Ctrl-C.
            resumes: Whether to continue the last session.
            config: Added to the configuration of the profile.
            blueprint: The agent; `worker` by default.
            fields: Fields of the profile.
        """
        documents = {"agent": blueprint or self.worker, "profile": self.profile(config or {}, **fields)}
        project = self.folder / name if resumes else self.project(name, documents)
        what = ["resume", "last"] if resumes else ["run", "agent.json"]
        argv = [installed("ao"), *what, "--profile", "./profile.json", "--events", *arguments]
        with ModelSimulator(Script.from_answers(answers)) as model:
            env = self.agent.environment(model.url, self.home)
            with (project / "stderr").open("wb") as stderr, subprocess.Popen(
                argv, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
            ) as runner:  # fmt: skip
                try:
                    events = list(events_of(runner, interrupt, model))
                    code = runner.wait(RUN_SECONDS)
                finally:
                    runner.kill()
            return Ended(events, model.requests, code, (project / "stderr").read_text(encoding="utf-8"))

    @contextmanager
    def at_terminal(self, name: str, answers: Sequence[Any], *arguments: str) -> Iterator["tuple[Any, int, Path]"]:
        """Start `ao run` at a terminal; gives the process, our end of the terminal, and the project folder."""
        project = self.project(name, {"agent": self.worker, "profile": self.profile({})})
        argv = ["run", "agent.json", "--profile", "./profile.json", *arguments]
        with ModelSimulator(Script.from_answers(answers)) as model:
            env = self.agent.environment(model.url, self.home)
            with at_a_terminal(Ao(project), *argv, variables=env) as (process, terminal):
                yield process, terminal, project


Interrupt = Callable[[Event | None, ModelSimulator], bool]
"""Says, for each event and, with None, while none comes, whether to interrupt now."""


def events_of(runner: "subprocess.Popen[bytes]", interrupt: Interrupt | None, model: ModelSimulator) -> Iterator[Event]:
    """Yield the events of a run, and interrupt it once when it is time."""
    assert runner.stdout is not None
    until, buffered = time.monotonic() + RUN_SECONDS, b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([runner.stdout], [], [], 0.05 if interrupt else left)[0]:
            if interrupt is not None and interrupt(None, model):
                runner.send_signal(signal.SIGINT)
                interrupt = None
            continue
        chunk = os.read(runner.stdout.fileno(), 1 << 16)
        if not chunk:
            return
        *lines, buffered = (buffered + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            yield event
            if interrupt is not None and interrupt(event, model):
                runner.send_signal(signal.SIGINT)
                interrupt = None
    raise NotSeen(f"the run had not ended after {RUN_SECONDS:g} s")


def plain(text: bytes) -> str:
    """Return what a terminal shows, without the sequences that move the cursor or colour."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode(errors="replace"))


Probe = Callable[[Bench], dict[str, str]]
"""Performs runs of an agent. Returns by row of the table an empty text, if its promise was seen, else the reason.

Raises NotSeen with a run's own error.
"""

"""Run an agent from Python: `Agent(blueprint).run(prompt)` starts an executor and returns the agent's answer.

Runs are stored like those of `ao run`, for `ao sessions`, `ao events` and `ao resume`.
"""

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias

from pydantic import BaseModel, JsonValue
from typing_extensions import TypeVar

from ao_protocol.attachments import Attachment
from ao_protocol.common_settings import Access, settings_said
from ao_protocol.contracts import demand_of
from ao_protocol.events import Event, Failure, Terminal
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint, understand_blueprint
from ao_runner.errors import RunnerError
from ao_runner.home import default_home
from ao_runner.model_script import play_model_script
from ao_runner.named_schemas.from_models import schema_of_class
from ao_runner.processes.containment import probe
from ao_runner.profiles import Profile, load_profile, with_whole_path
from ao_runner.run_events import Relayed
from ao_runner.runs.attaching import attachment_of
from ao_runner.runs.journal import NeverFull, StoredJournal, paused_profiles
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.run import perform_single_run, request_here
from ao_runner.runs.run_request import RunRequest, StopRequests
from ao_runner.runs.submission import DEFAULT_EXECUTORS, NewRun, Reception, accept
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import CallerTerms
from ao_runner.store.sqlite_store import SqliteStore

__all__ = ["Agent", "AgentFailed", "Answer", "Attachment", "Event"]

Value = TypeVar("Value", default=JsonValue)
Attachable: TypeAlias = Path | str | Attachment

INLINE: Final = Path("blueprint")
"""The name in errors of a blueprint without a file."""
MAX_TOLD_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """The answer of an agent. `ao resume SESSION_ID` continues the conversation."""

    value: Value
    session_id: str
    run_id: str


@dataclass(eq=False)
class AgentFailed(RunnerError):
    """The run ended with a failure, its terminal event (SPEC 6)."""

    failure: Failure
    session_id: str
    run_id: str

    def __str__(self) -> str:
        error = self.failure.error
        problems = [problem for problem in error.validation_errors or [] if problem not in error.message]
        reasons = "; ".join([error.message, *problems[:MAX_TOLD_PROBLEMS]])
        return f"{error.type}: {reasons} (`ao events {self.session_id}` prints the events of the run)"


@dataclass(frozen=True, slots=True)
class Agent(CallerTerms, Generic[Value]):
    """An agent and how it is run.

    Args:
        blueprint: The path of a blueprint (JSON or YAML) or of an agent of Claude Code or OpenCode, or the blueprint
            itself. What is not carried over is a warning.
        answer: A pydantic model. Its schema is the output contract of each run, unless the blueprint has a schema that
            callers cannot replace; the answer must then fit both. Without a model, an answer is the JSON of the
            blueprint's contract, or text.
        profile: Name or path of a profile, or of an executor. Default: the executor for the blueprint's type.
        config: The executor's configuration; it takes precedence over that of the profile.
        model, reasoning_effort, show_reasoning, access, allowed_tools, additional_folders: The common settings
            (SPEC 7), which take precedence over `config`.
        project_dir: The folder that the agent works in. Default: the current one.
        timeout_seconds: A run is stopped after this time, and fails with `deadline_exceeded`.
        metadata: Passed to the executor.
        labels: Short texts by name, by which `ao runs --label K=V` finds the runs.
        output_schema_options: How the schema of the answer is enforced.
        no_schema: The answer is text, although the blueprint has a default schema.
        keep_rejected: Store answers that do not fit, for `ao result --attempts`.
        model_script: A script that answers instead of a model, for tests.
        home: The folder where runs are stored. Default: `AO_HOME`, or the user's data folder.
    """

    blueprint: Path | str | JsonObject
    answer: type[Value] | None = None
    config: JsonObject = field(default_factory=dict)
    model: str | None = None
    reasoning_effort: str | None = None
    show_reasoning: bool | None = None
    access: Access | None = None
    allowed_tools: Sequence[str] | None = None
    additional_folders: Sequence[Path | str] | None = None
    output_schema_options: JsonObject = field(default_factory=dict)
    no_schema: bool = False
    keep_rejected: bool = True
    project_dir: Path | str = "."
    model_script: Path | str | None = None
    home: Path | str | None = None

    def run(
        self,
        prompt: str | None = None,
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        attachments: Sequence[Attachable] = (),
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer[Value]:
        """Run the agent and wait for its answer, like `run_async`. Ctrl-C stops the agent first.

        Raises:
            RuntimeError: An event loop runs in this thread; await `run_async` there.
        """
        return asyncio.run(self.run_async(prompt, parameters=parameters, attachments=attachments, on_event=on_event))

    async def run_async(
        self,
        prompt: str | None = None,
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        attachments: Sequence[Attachable] = (),
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer[Value]:
        """Run the agent and return its answer. If the task is cancelled, the agent is stopped first.

        Args:
            prompt: The prompt; the same as `prompt` in `parameters`.
            parameters: The parameters of the run.
            attachments: Files beside the prompt: paths, whose suffixes say their media types, or attachments.
            on_event: Called with each event after it is stored. It must not block.

        Raises:
            AgentFailed: The run ended with a failure.
            RunnerError: Nothing was run: the blueprint, the profile or the executor cannot be used; the text says why.
            ValueError: Nothing was run: the parameters or `config` hold what no invocation can; the text has the place.
            pydantic.ValidationError: The answer fits the blueprint's own schema, but not the model.
        """
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else parameters or {}
        given = given if prompt is None else {**given, "prompt": prompt}
        home = self._home()
        attached = [attachment_of(Path(one)) if isinstance(one, Path | str) else one for one in attachments]
        asked, profile = self._asked(given, attached, home)
        with (
            SqliteStore(home) as store,
            own_runs(home) as owner,
            nullcontext()
            if self.model_script is None
            else play_model_script(Path(self.model_script), home, os.environ) as simulator,
        ):
            fail_lost_runs(store)
            accepted = accept(asked, Reception(os.environ, home, str(Path.cwd()), store, is_queued=False))
            simulation = simulator.simulation if simulator else None
            request = request_here(accepted, profile, store, home, simulation=simulation)
            run, pausing = accepted.run, paused_profiles(accepted.run, profile)
            journal = StoredJournal(store, run, _Follower(on_event), owner, accepted.session, pausing)
            terminal = await _perform_unless_cancelled(request, journal, home)
        if isinstance(terminal, Failure):
            raise AgentFailed(terminal, accepted.session.session_id, accepted.run.run_id)
        value: Any = terminal.result_data if terminal.result_text is None else terminal.result_text
        if (model := self._model()) is not None:
            value = model.model_validate(value)
        return Answer(value, accepted.session.session_id, accepted.run.run_id)

    def _settings(self) -> JsonObject:
        lists: dict[str, list[JsonValue]] = {}
        if self.allowed_tools is not None:
            lists["allowed_tools"] = list(self.allowed_tools)
        if self.additional_folders is not None:
            lists["additional_folders"] = [str(Path(one).absolute()) for one in self.additional_folders]
        return {**settings_said(self), **lists}

    def _home(self) -> Path:
        return Path(self.home or os.environ.get("AO_HOME") or default_home()).absolute()

    def _model(self) -> type[BaseModel] | None:
        if self.answer is None:
            return None
        if not (isinstance(self.answer, type) and issubclass(self.answer, BaseModel)):
            raise TypeError(f"answer: found {self.answer!r}, expected a class derived from pydantic.BaseModel")
        return self.answer

    def _asked(self, parameters: JsonObject, attached: Sequence[Attachment], home: Path) -> tuple[NewRun, Profile]:
        if isinstance(self.blueprint, dict):
            loaded = understand_blueprint(INLINE, self.blueprint)
        else:
            loaded = load_blueprint(Path(self.blueprint))
        for remark in loaded.not_carried_over:
            warnings.warn(f"{loaded.path}: {remark}", stacklevel=2)
        name = DEFAULT_EXECUTORS[loaded.blueprint.type] if self.profile is None else with_whole_path(self.profile)
        is_designers = demand_of(loaded.blueprint).authoritative is not None
        model = self._model()
        asked = NewRun(
            parameters=parameters,
            attachments=tuple(one.model_dump(exclude_none=True) for one in attached),
            blueprint=loaded,
            project_dir=str(Path(self.project_dir).absolute()),
            executor_config={**self.config, **self._settings()},
            output_schema=None if model is None or is_designers else schema_of_class(model, model.__name__),
            output_schema_options=self.output_schema_options,
            no_schema=self.no_schema,
            keep_rejected=self.keep_rejected,
            is_simulated=self.model_script is not None,
            **{one.name: getattr(self, one.name) for one in fields(CallerTerms)} | {"profile": name},
        )
        return asked, load_profile(name, home, os.environ)


@dataclass
class _Follower(NeverFull):
    """Calls a function with each event."""

    function: Callable[[Event], None] | None

    def on_event(self, relayed: Relayed) -> None:
        if self.function is not None:
            self.function(relayed.event)

    def on_note(self, note: str) -> None:
        """Ignore notes, which are not events."""


async def _perform_unless_cancelled(request: RunRequest, journal: StoredJournal, home: Path) -> Terminal:
    stops = StopRequests()
    performing = asyncio.ensure_future(perform_single_run(request, journal, stops, home, probe(os.environ)))
    while True:
        try:
            terminal = await asyncio.shield(performing)
        except asyncio.CancelledError:
            if performing.cancelled():
                raise
            stops.request()
            continue
        if stops.count:
            raise asyncio.CancelledError
        return terminal

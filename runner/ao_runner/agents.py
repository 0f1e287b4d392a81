"""Run an agent from Python: `Agent(blueprint).run(prompt)` starts an executor and returns the agent's answer.

`run` and `batch` wait, `run_async` and `batch_async` are for event loops, and `stream` yields the events of a run.
Runs are stored like those of `ao run`, for `ao sessions`, `ao events` and `ao resume`.
"""

import asyncio
import os
import queue
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeAlias

from pydantic import BaseModel, JsonValue
from typing_extensions import TypeVar

from ao_protocol.attachments import Attachment
from ao_protocol.common_settings import Access, settings_said
from ao_protocol.contracts import demand_of
from ao_protocol.documents import Blueprint
from ao_protocol.events import Event, Failure, Terminal, UsageFigures
from ao_protocol.json_path import ROOT
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_blueprint, understand_blueprint
from ao_runner.discovery import describe, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.home import default_home
from ao_runner.known_settings import setting_remarks
from ao_runner.model_script import play_model_script
from ao_runner.named_schemas.from_models import schema_of_class
from ao_runner.processes.containment import probe
from ao_runner.profiles import Profile, load_profile, with_whole_path
from ao_runner.run_events import Relayed
from ao_runner.runs.attaching import attachment_of
from ao_runner.runs.journal import NeverFull, StoredJournal, paused_profiles
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.run import perform_single_run, profile_to_continue, request_here
from ao_runner.runs.run_request import RunRequest, StopRequests, bare_environment
from ao_runner.runs.submission import DEFAULT_EXECUTORS, NewRun, Reception, accept, blueprint_of
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import CallerTerms, Run, Session
from ao_runner.store.sqlite_store import SqliteStore

__all__ = ["Agent", "AgentFailed", "AgentStream", "Answer", "Attachment", "Event"]

Value = TypeVar("Value", default=JsonValue)
Attachable: TypeAlias = Path | str | Attachment

INLINE: Final = Path("blueprint")
"""The name in errors of a blueprint without a file."""
MAX_TOLD_PROBLEMS: Final = 5


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """The answer of an agent.

    Args:
        value: An instance of the model, the JSON of the contract, or text.
        session_id: Continues the conversation, by `Agent.run(…, session_id=…)` or `ao resume`.
        run_id: The run, for `ao result` and `ao events`.
        usage: Tokens and `cost_usd` of this run, as far as the executor knows them.
        attempts: How many answers the agent gave until one fitted the contract.
    """

    value: Value
    session_id: str
    run_id: str
    usage: UsageFigures | None = None
    attempts: int = 1


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
        model: The model. This and the next five are the common settings (SPEC 7); they take precedence over `config`.
        reasoning_effort: How much the model thinks, such as `low` or `high`.
        show_reasoning: Whether reasoning is reported.
        access: What the agent may do without a question: `read`, `edit` or `all`.
        allowed_tools: Tools that need no question besides.
        additional_folders: Folders beside `project_dir` in which the agent may work.
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
        session_id: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer[Value]:
        """Run the agent and wait for its answer, like `run_async`. Ctrl-C stops the agent first.

        Raises:
            RuntimeError: An event loop runs in this thread; await `run_async` there.
        """
        _refuse_in_a_loop("run")
        running = self.run_async(
            prompt, parameters=parameters, attachments=attachments, session_id=session_id, on_event=on_event
        )
        return asyncio.run(running)

    async def run_async(
        self,
        prompt: str | None = None,
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        attachments: Sequence[Attachable] = (),
        session_id: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer[Value]:
        """Run the agent and return its answer. If the task is cancelled, the agent is stopped first.

        Args:
            prompt: The prompt; the same as `prompt` in `parameters`.
            parameters: The parameters of the run.
            attachments: Files beside the prompt: paths, whose suffixes say their media types, or attachments.
            session_id: Continues this session. Its blueprint, configuration and folder are those of its first run.
            on_event: Called with each event after it is stored. It must not block.

        Raises:
            AgentFailed: The run ended with a failure.
            RunnerError: Nothing was run: the blueprint, the profile or the executor cannot be used, or there is no such
                session; the text says why.
            ValueError: Nothing was run: the parameters or `config` hold what no invocation can; the text has the place.
            pydantic.ValidationError: The answer fits the blueprint's own schema, but not the model.
        """
        given: Any = dict(parameters) if isinstance(parameters, Mapping) else parameters or {}
        given = given if prompt is None else {**given, "prompt": prompt}
        home = self._home()
        attached = [attachment_of(Path(one)) if isinstance(one, Path | str) else one for one in attachments]
        with (
            SqliteStore(home) as store,
            own_runs(home) as owner,
            nullcontext()
            if self.model_script is None
            else play_model_script(Path(self.model_script), home, os.environ) as simulator,
        ):
            if session_id is None:
                asked, profile = self._asked(given, attached, home)
            else:
                asked, profile = self._asked_again(given, attached, home, store.sessions.find(session_id))
            fail_lost_runs(store)
            accepted = accept(asked, Reception(os.environ, home, str(Path.cwd()), store, is_queued=False))
            if accepted.is_new_session:
                await _warn_of_unknown_settings(asked.executor_config, profile)
            simulation = simulator.simulation if simulator else None
            request = request_here(accepted, profile, store, home, simulation=simulation)
            run, pausing = accepted.run, paused_profiles(accepted.run, profile)
            new_session = accepted.session if accepted.is_new_session else None
            journal = StoredJournal(store, run, _Follower(on_event), owner, new_session, pausing)
            terminal = await _perform_unless_cancelled(request, journal, home)
        return self._answer(terminal, run)

    def stream(
        self,
        prompt: str | None = None,
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        attachments: Sequence[Attachable] = (),
        session_id: str | None = None,
    ) -> "AgentStream[Value]":
        """Start the agent, and return its events as an iterator, which has the answer at its end.

        Use it in a `with` block; leaving the block stops a run that has not ended. The parameters are those of
        `run_async`, whose errors are raised by the iterator and by `answer`.
        """
        return AgentStream(
            lambda on_event: self.run_async(
                prompt, parameters=parameters, attachments=attachments, session_id=session_id, on_event=on_event
            )
        )

    def batch(
        self, prompts: Iterable[str | Mapping[str, JsonValue]], *, concurrency: int = 4
    ) -> "list[Answer[Value] | AgentFailed]":
        """Run the agent once for each prompt and wait for all, like `batch_async`. Ctrl-C stops all agents first.

        Raises:
            RuntimeError: An event loop runs in this thread; await `batch_async` there.
        """
        _refuse_in_a_loop("batch")
        return asyncio.run(self.batch_async(prompts, concurrency=concurrency))

    async def batch_async(
        self, prompts: Iterable[str | Mapping[str, JsonValue]], *, concurrency: int = 4
    ) -> "list[Answer[Value] | AgentFailed]":
        """Run the agent once for each prompt, in sessions of their own.

        Args:
            prompts: A prompt, or the parameters, of each run.
            concurrency: The maximum number of runs at the same time.

        Returns:
            The answers in the order of the prompts; the failure where a run ended with one. One does not stop others.

        Raises:
            RunnerError, ValueError, pydantic.ValidationError: As `run_async`, of the first such run; all others are
                stopped.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency: found {concurrency}, expected at least 1")
        waiting = iter(enumerate(prompts))
        ended: dict[int, Answer[Value] | AgentFailed] = {}

        async def perform_next() -> None:
            for number, one in waiting:
                asked: Any = {"prompt": one} if isinstance(one, str) else {"parameters": one}
                try:
                    ended[number] = await self.run_async(**asked)
                except AgentFailed as failed:
                    ended[number] = failed

        performing = [asyncio.ensure_future(perform_next()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*performing)
        finally:
            for one in performing:
                one.cancel()
            await asyncio.wait(performing)
        return [ended[number] for number in sorted(ended)]

    def _answer(self, terminal: Terminal, run: Run) -> Answer[Value]:
        if isinstance(terminal, Failure):
            raise AgentFailed(terminal, run.session_id, run.run_id)
        value: Any = terminal.result_data if terminal.result_text is None else terminal.result_text
        if (model := self._model()) is not None:
            value = model.model_validate(value)
        attempts = 1 if terminal.output is None else terminal.output.retry_count + 1
        return Answer(value, run.session_id, run.run_id, terminal.usage, attempts)

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
        profile = load_profile(name, home, os.environ)
        asked = NewRun(
            blueprint=loaded,
            project_dir=str(Path(self.project_dir).absolute()),
            executor_config={**self.config, **self._settings()},
            **self._terms(parameters, attached, loaded.blueprint) | {"profile": name},
        )
        return asked, profile

    def _asked_again(
        self, parameters: JsonObject, attached: Sequence[Attachment], home: Path, session: Session
    ) -> tuple[NewRun, Profile]:
        name = None if self.profile is None else with_whole_path(self.profile)
        terms = self._terms(parameters, attached, blueprint_of(session)) | {"profile": name}
        return NewRun(session_id=session.session_id, **terms), profile_to_continue(
            session, name or session.profile, home
        )

    def _terms(self, parameters: JsonObject, attached: Sequence[Attachment], blueprint: Blueprint) -> dict[str, Any]:
        """Return the fields of a request that a new run and a resumed one have."""
        model, is_designers = self._model(), demand_of(blueprint).authoritative is not None
        return {
            **{one.name: getattr(self, one.name) for one in fields(CallerTerms)},
            "parameters": parameters,
            "attachments": tuple(one.model_dump(exclude_none=True) for one in attached),
            "output_schema": None if model is None or is_designers else schema_of_class(model, model.__name__),
            "output_schema_options": self.output_schema_options,
            "no_schema": self.no_schema,
            "keep_rejected": self.keep_rejected,
            "is_simulated": self.model_script is not None,
        }


class AgentStream(Generic[Value]):
    """The events of a run in their order, each after it is stored, and the answer after them.

    The run goes on in a thread of its own, and does not wait for the reader.
    """

    def __init__(self, perform: Callable[[Callable[[Event], None]], Coroutine[Any, Any, Answer[Value]]]) -> None:
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._ended: Future[Answer[Value]] = Future()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(perform(self._events.put))
        self._thread = threading.Thread(target=self._perform, name="ao-agent", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if (event := self._events.get()) is None:
            self._events.put(None)  # for the next call
            self._ended.result()
            raise StopIteration
        return event

    @property
    def answer(self) -> Answer[Value]:
        """The answer. Waits for the end of the run, and raises what `Agent.run_async` does."""
        return self._ended.result()

    def close(self) -> None:
        """Stop the run if it has not ended, and wait for its end."""
        if not self._ended.done():
            with suppress(RuntimeError):  # the loop is closed: it has just ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _perform(self) -> None:
        try:
            answer = self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            self._ended.set_exception(RunnerError("the run has no answer: its stream was closed before it ended"))
        except BaseException as error:  # noqa: BLE001  # it is raised where the answer is read
            self._ended.set_exception(error)
        else:
            self._ended.set_result(answer)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
            self._events.put(None)


def _refuse_in_a_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"Agent.{name}() waits for the agent, and an event loop runs in this thread (as in notebooks and async"
        f" functions); write `await agent.{name}_async(…)` there"
    )


async def _warn_of_unknown_settings(config: JsonObject, profile: Profile) -> None:
    """Tell what the executor does not know, as `ao run --config` does; it is left out or refused with the run."""
    if config:
        description = await describe(locate_executor(profile.executor), bare_environment(os.environ))
        for remark in setting_remarks(config, description, ROOT):
            warnings.warn(f"config: executor {description.executor.name}: {remark}", stacklevel=2)


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

"""One run from `run_started` to its terminal event."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from attachments import blocks_of
from contracts import Contract, contract_of
from control import Control
from conversation import DEFAULT_MODEL, Conversation
from description import EXECUTOR
from errors import RunFailed, exit_code_of, failure_fields
from events import Emitter
from hooks import linger, make_noise
from inputs import prompt_of
from invocation import require_config, require_form, require_known_features, require_parameters_schema, without_nulls
from mcp import McpServers
from messages_api import MessagesApi
from person import Requests, ask_as_told
from sessions import Session, SessionStore
from tools import Toolbox
from trace_context import traceparent_of
from versions import NEWEST, announced, upgraded, version_of
from watch import Watch


class Runs:
    """Performs the first run of a process and the turns behind it, with one invocation for all of them."""

    def __init__(
        self, emitter: Emitter, watch: Watch, control: Control, servers: McpServers, environment: Mapping[str, str]
    ) -> None:
        self._emitter, self._watch, self._control = emitter, watch, control
        self._servers, self._environment = servers, environment
        self._requests = Requests(emitter, watch, control)
        self._toolbox = Toolbox(emitter, watch, self._requests)
        self._store = SessionStore(environment.get("HOME") or "/tmp", emitter.blacked_out)  # noqa: S108
        self._session: Session | None = None
        self._session_id: str | None = None
        self._announced = NEWEST
        self.can_go_on = False

    def refuse_line(self, reason: RunFailed) -> int:
        """Perform the run of a line that could not be read."""
        return self._run(None, None, {}, lambda: self._refuse(reason))

    def first(self, document: dict[str, Any]) -> int:
        """Perform the run that an invocation asks for, and return its exit code."""
        self._session_id = _name_of(document.get("session_id")) or "ses_" + os.urandom(8).hex()
        run_id = _name_of(document.get("run_id")) or "run_" + os.urandom(8).hex()
        try:
            version = version_of(document)
        except RunFailed as refused:
            reason = refused
            return self._run(run_id, self._session_id, {}, lambda: self._refuse(reason))
        self._announced = announced(version)
        self._invocation = without_nulls(upgraded(document, version))
        return self._run(run_id, self._session_id, self._invocation, lambda: self._begin(version))

    def turn(self, said: dict[str, Any]) -> int:
        """Perform the run of a `turn` line, and return its exit code."""
        return self._run(said["run_id"], self._session_id, self._invocation, lambda: self._turn(said))

    def _run(
        self, run_id: str | None, session_id: str | None, invocation: dict[str, Any], work: Callable[[], dict[str, Any]]
    ) -> int:
        limits = _limits_of(invocation)
        self._toolbox.begin()
        self._requests.begin([])
        self._usage: dict[str, Any] = {}
        self._emitter.begin(run_id, session_id)
        self._emitter.max_event_bytes = int(limits.get("max_event_bytes") or self._emitter.max_event_bytes)
        self._watch.begin(limits)
        self._emitter.emit("run_started", schema_version=self._announced, executor=EXECUTOR)
        try:
            result = work()
            usage = {"usage": self._usage} if self._usage else {}
            if result["result_text"] is None and not self._emitter.fits("result", **result, **usage):
                raise RunFailed(
                    "limit_exceeded", "the result is longer than max_event_bytes; allow more or ask for less"
                )
            self._emitter.emit("result", **result, **usage)
        except RunFailed as failed:
            return self._fail(failed)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever happens, a run ends in a terminal event (AOX-192)
            return self._fail(RunFailed("internal_error", f"{type(error).__name__}: {error}; report this fault"))
        finally:
            self._store.release()
        return exit_code_of(None)

    def _fail(self, failed: RunFailed) -> int:
        is_touched = self._toolbox.has_started or self._servers.have_started
        usage = {"usage": self._usage} if self._usage else {}
        self._emitter.emit("failure", **failure_fields(failed, is_touched=is_touched), **usage)
        return exit_code_of(failed)

    def _refuse(self, reason: RunFailed) -> dict[str, Any]:
        raise reason

    def _begin(self, version: tuple[int, int]) -> dict[str, Any]:
        invocation = self._invocation
        require_form(invocation, version)
        require_known_features(invocation)
        require_config(invocation)
        require_parameters_schema(invocation)
        blueprint = invocation.get("agent_blueprint", {})
        is_start = invocation["mode"] == "start"
        prompt = prompt_of(invocation, blueprint, is_start=is_start)
        self._attached = blocks_of(invocation.get("attachments", []))
        self._requests.begin(invocation.get("input_responses", []))
        self._contract = contract_of(invocation, self._environment)
        self._control.open(invocation.get("control", {}))
        self._enter_project_dir(invocation.get("project_dir"))
        if is_start:
            session = self._store.begin(self._session_id, blueprint.get("system_prompt"))
        else:
            session = self._store.go_on(invocation.get("executor_session_id"), self._session_id)
            session.system_prompt = blueprint.get("system_prompt", session.system_prompt)
        return self._converse(session, prompt, self._contract)

    def _turn(self, turn: dict[str, Any]) -> dict[str, Any]:
        prompt = prompt_of(turn, self._invocation.get("agent_blueprint", {}), is_start=False)
        self._attached = blocks_of(turn.get("attachments") or [])
        assert self._session is not None
        session = self._store.go_on(self._session.executor_session_id, self._session_id)
        session.system_prompt = self._session.system_prompt
        return self._converse(session, prompt, self._contract)

    def _converse(self, session: Session, prompt: str, contract: Contract | None) -> dict[str, Any]:
        invocation = self._invocation
        self._session = session
        self.can_go_on = True
        model = invocation.get("executor_config", {}).get("model", DEFAULT_MODEL)
        self._emitter.emit(
            "session_bound",
            executor_session_id=session.executor_session_id,
            project_dir=os.getcwd(),  # noqa: PTH109  # pathlib costs 5 ms at every start
            model=model,
        )
        make_noise(self._environment)
        linger(self._environment, self._watch)
        self._servers.connect(invocation.get("agent_blueprint", {}).get("mcp_servers") or {})
        conversation = Conversation(self._emitter, self._watch, self._toolbox, self._api())
        conversation.attached = self._attached
        self._toolbox.access = invocation.get("executor_config", {}).get("access")
        conversation.before_work = lambda: ask_as_told(self._environment, self._requests)
        self._usage = conversation.usage
        try:
            return conversation.perform(session, prompt, contract, invocation)
        finally:
            self._store.keep(session)

    def _api(self) -> MessagesApi:
        url = self._environment.get("ANTHROPIC_BASE_URL", "")
        api_key = self._environment.get("ANTHROPIC_API_KEY", "")
        return MessagesApi(self._watch, url, api_key, traceparent_of(self._invocation, self._environment))

    def _enter_project_dir(self, project_dir: str | None) -> None:
        try:
            os.chdir(project_dir or ".")
        except (OSError, ValueError) as error:
            raise RunFailed("workspace_error", f"{project_dir} cannot be used ({error}); name a directory") from None


def _name_of(said: Any) -> str | None:
    return said if isinstance(said, str) and said else None


def _limits_of(invocation: dict[str, Any]) -> dict[str, Any]:
    try:
        require_form({"mode": "start", "parameters": {}, "limits": invocation.get("limits", {})}, (3, 0))
    except RunFailed:
        return {}
    return dict(invocation.get("limits", {}))

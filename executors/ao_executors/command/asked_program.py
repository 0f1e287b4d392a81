"""Perform one run by asking a program, in a session of the program if it has any, until its answer is valid.

The configuration defines the command lines, the ids of sessions, the output and the exit codes.
"""

import json
import re
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import JsonValue

from ao_executors.core import Answer, RunFailed, Task, converse
from ao_executors.core.conversation import occupy
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import MAX_LEVELS
from ao_executors.core.program import MAX_ARGUMENT_BYTES, ProgramEnded, ProgramRun, find_executable, not_started
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result, SessionBound
from ao_protocol.framing import refuse_depth

_MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
_SEARCH_SECONDS: Final = 1.0
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""The form of a session id: neither an option nor a path."""
PROMPT: Final = "{prompt}"
SYSTEM_PROMPT: Final = "{system_prompt}"
SESSION_ID: Final = "{session_id}"
_PLACEHOLDER: Final = re.compile(r"\{(?:prompt|system_prompt|session_id)\}")
_SHOWN_CHARACTERS: Final = 2000
_DELAY: Final = "retry_after_seconds"


async def perform_by_program(task: Task) -> Result:
    """Ask the program and return its answer as the result.

    Raises:
        RunFailed: The program is missing or fails, its session is not known or busy, or its answer does not satisfy the
            contract.
    """
    config = _ProgramConfig(task.config)
    with ExitStack() as held:
        program = _AskedProgram(task, config, held)
        if task.invocation.mode == "resume":
            program.resume(task.invocation.executor_session_id or "")
        elif config.resume_argv is not None and config.session_pattern is None:
            program.bind(str(uuid4()))
        return await converse(task, program)


class _AskedProgram:
    """A program that is started once for each answer. `held` owns the lock of its session."""

    def __init__(self, task: Task, config: "_ProgramConfig", held: ExitStack) -> None:
        self._task = task
        self._config = config
        self._held = held
        self._session: str | None = None
        self._knows_session = False
        self._said: list[str] = []

    def resume(self, session: str) -> None:
        """Resume a session.

        Raises:
            RunFailed: The session is busy or not known, or the program cannot resume sessions.
        """
        if self._config.resume_argv is None:
            message = "the program cannot resume a session: executor_config has no resume_argv; start a new session"
            raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": ["resume"]})
        # The run that has just begun it may not have made its file yet.
        self._occupy(session)
        file = Path(self._config.session_file.replace(SESSION_ID, session)).expanduser()
        if not _SESSION.fullmatch(session) or not Path(self._task.project_dir, file).exists():
            message = f"unknown session {session!r}; pass the executor_session_id of the last session_bound event"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
        self._announce(session)
        self._knows_session = True

    def bind(self, session: str) -> None:
        """Lock a session and emit its id as `session_bound`.

        Raises:
            RunFailed: Another run is using the session.
        """
        self._occupy(session)
        self._announce(session)

    def _occupy(self, session: str) -> None:
        self._held.enter_context(occupy(f"command {self._config.argv[0]}", session))

    def _announce(self, session: str) -> None:
        self._session = session
        self._task.events.emit(SessionBound(executor_session_id=session))

    async def ask(self, text: str) -> Answer:
        """Run the program and return its answer.

        Without a session, the prompt contains the conversation so far.

        Raises:
            RunFailed: The program is missing, fails, or prints no answer.
        """
        resumes = self._config.resume_argv if self._knows_session else None
        shown = text if resumes else "\n\n".join([*self._said, text])
        name, ended = await self._run(resumes or self._config.argv, shown, with_system_prompt=resumes is None)
        self._learn_session(ended)
        if ended.return_code != 0:
            raise self._config.failure_of(name, ended)
        answer = self._config.answer_of(name, ended)
        self._knows_session = self._session is not None
        self._said += [text, f"Your answer was:\n\n{answer}"]
        return Answer(answer, message_id=f"msg_{len(self._said) // 2}")

    async def _run(self, argv: list[str], text: str, *, with_system_prompt: bool) -> tuple[str, ProgramEnded]:
        system_prompt = self._task.system_prompt or ""
        if with_system_prompt and system_prompt and not any(SYSTEM_PROMPT in argument for argument in argv):
            text = f"{system_prompt}\n\n{text}"
        arguments = _filled(argv, {PROMPT: text, SYSTEM_PROMPT: system_prompt, SESSION_ID: self._session or ""})
        program = find_executable(argv[0], self._task.project_dir, "program", self._config.install_hint)
        stdin = None if any(PROMPT in argument for argument in argv) else text.encode(errors="replace")
        run = ProgramRun([program, *arguments], _MAX_OUTPUT_BYTES, stdin)
        try:
            started = run.started(self._task)
        except OSError as error:
            raise self._config.not_started(argv[0], str(error.strerror)) from error
        self._task.events.may_have_changed_something = True  # its other actions are not known
        ended = await run.run_to_end(started)
        if ended.why_not_started is not None:
            raise self._config.not_started(argv[0], ended.why_not_started)
        return argv[0], ended

    def _learn_session(self, ended: ProgramEnded) -> None:
        """Find the program's session id, which may change with each answer."""
        pattern = self._config.session_pattern
        if pattern is None or self._config.resume_argv is None:
            return
        # Text on stdout is not searched, because it comes from the model.
        places = [ended.stderr, ended.stdout] if self._config.answer_path else [ended.stderr]
        try:
            matches = (_search(pattern, place.text) for place in places)
            session = next((match[1] for match in matches if match), None)
        except TimeoutError as error:
            self._task.events.warn(f"executor_config.session_pattern: {error}")
            return
        if session is not None and session != self._session and _SESSION.fullmatch(session):
            self.bind(session)
        elif self._session is None and ended.return_code == 0:
            message = f"executor_config.session_pattern found no id of a session, but {session!r}; it cannot be resumed"
            self._task.events.warn(message)


class _ProgramConfig:
    """An `executor_config` that satisfies its schema, with further checks that a schema cannot express.

    Raises:
        RunFailed: A regular expression is not valid, or the configuration does not identify sessions.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        pattern, patterns = config.get("session_pattern"), config.get("error_patterns", {})
        self.argv: list[str] = config["argv"]
        self.resume_argv: list[str] | None = config.get("resume_argv")
        self.session_pattern = None if pattern is None else _compiled("session_pattern", pattern, groups=1)
        self.session_file: str = config.get("session_file", ".")
        self.install_hint: str = config.get("install_hint", "install it, or name its path in executor_config.argv")
        self.answer_path: list[str] = config.get("output", "text").split(".")[1:]
        self._exit_codes: dict[str, str] = config.get("exit_codes", {})
        self._error_patterns = [(_compiled("error_patterns", text), ErrorType(patterns[text])) for text in patterns]
        if self.resume_argv is not None:
            if not any(SESSION_ID in argument for argument in self.resume_argv[1:]):
                raise _invalid("resume_argv", f"has no {SESSION_ID}: the newest session may be another run's; add it")
            if pattern is None and not any(SESSION_ID in argument for argument in self.argv[1:]):
                raise _invalid("argv", f"has no {SESSION_ID}, and no session_pattern finds one; add one of them")

    def not_started(self, name: str, reason: str) -> RunFailed:
        """Return the failure of a program that cannot be started."""
        return not_started(name, reason, "program", self.install_hint)

    def answer_of(self, name: str, ended: ProgramEnded) -> str:
        """Return the answer in the output of a program that exited with 0.

        Raises:
            RunFailed: The output is too long, or has no value at the configured path.
        """
        if ended.stdout.is_cut:
            message = f"{name} printed {ended.stdout.total_bytes} bytes; at most {len(ended.stdout.kept)} are an answer"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="tool")
        printed = ended.stdout.text
        if not self.answer_path:
            return printed
        for document in reversed(_documents(printed)):
            found = _at(document, self.answer_path)
            if found is not None:
                return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        path = ".".join(["$", *self.answer_path])
        message = f"{name} printed no JSON with {path} (executor_config.output), but {printed[-_SHOWN_CHARACTERS:]!r}"
        raise RunFailed(ErrorType.TOOL_FAILED, message, origin="tool")

    def failure_of(self, name: str, ended: ProgramEnded) -> RunFailed:
        """Return the failure of a program that did not exit with 0, with the end of its error output."""
        stderr, code = ended.stderr.text, ended.return_code
        complaint = (stderr or ended.stdout.text or "it printed nothing")[-_SHOWN_CHARACTERS:]
        message = f"{name} {f'exited with {code}' if code > 0 else f'died of signal {-code}'}: {complaint}"
        for pattern, error_type in self._error_patterns:
            try:
                match = _search(pattern, stderr)
            except TimeoutError as error:
                message += f" (executor_config.error_patterns: {error})"
                break
            if match:
                extra = {}
                with suppress(ValueError):  # no such group, or no number in it
                    extra[_DELAY] = float(match.groupdict().get(_DELAY) or "")
                return RunFailed(error_type, message, origin="provider", extra=extra)
        if known := self._exit_codes.get(str(code)):
            return RunFailed(ErrorType(known), message, origin="provider")
        return RunFailed(ErrorType.TOOL_FAILED, message, origin="tool")


def _filled(argv: list[str], values: dict[str, str]) -> list[str]:
    """Return the arguments after the program, with placeholders replaced by `values`.

    If an argument begins with a value that begins with a dash, a space is inserted before it, so that it is not read as
    an option. Arguments after `--` are not changed.

    Raises:
        RunFailed: An argument is too long, or contains a NUL character.
    """
    options_end = argv.index("--") if "--" in argv else len(argv)
    arguments = []
    for place, template in enumerate(argv[1:], 1):
        argument = _PLACEHOLDER.sub(lambda found: values[found[0]], template)
        if argument.startswith("-") and not template.startswith("-") and place < options_end:
            argument = f" {argument}"
        if "\0" in argument or len(argument.encode(errors="replace")) > MAX_ARGUMENT_BYTES:
            message = (
                f"what replaces {template!r} in executor_config.argv is no argument: it holds a NUL character or "
                f"more than {MAX_ARGUMENT_BYTES} bytes; leave {PROMPT} out, and the prompt is the program's stdin"
            )
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")
        arguments.append(argument)
    return arguments


def _compiled(name: str, pattern: str, groups: int = 0) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise _invalid(name, f"{pattern!r} is no regular expression of Python: {error}") from error
    if compiled.groups < groups:
        raise _invalid(name, f"{pattern!r} has no group; put the id of the session in parentheses")
    return compiled


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Search a text for a pattern of a user, on the main thread, where a signal interrupts it.

    Raises:
        TimeoutError: It takes longer than a second.
    """

    def interrupt(*_: object) -> None:
        advice = "write it without nested repetitions"
        raise TimeoutError(f"the search for {pattern.pattern!r} takes longer than {_SEARCH_SECONDS:g} s; {advice}")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _SEARCH_SECONDS)
    try:
        return pattern.search(text)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _invalid(name: str, reason: str) -> RunFailed:
    details = {"violations": [{"pointer": f"$.{name}", "message": reason}]}
    return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config does not fit: $.{name}: {reason}", details)


def _documents(printed: str) -> list[JsonValue]:
    """Parse the output as one JSON document, or else each of its lines that is JSON."""
    documents: list[JsonValue] = []
    for text in (printed, *printed.splitlines()):
        try:
            refuse_depth(text, MAX_LEVELS)
            documents.append(json.loads(text))
        except ValueError:  # NotIJson, or not JSON
            continue
        if text is printed:
            break
    return documents


def _at(document: JsonValue, path: list[str]) -> JsonValue:
    for key in path:
        if isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        elif isinstance(document, dict):
            document = document.get(key)
        else:
            return None
    return document

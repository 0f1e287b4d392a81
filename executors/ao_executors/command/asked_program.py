"""The story of one run: the program is asked, in its own session where it keeps one, until the contract is kept."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import uuid4

from ao_executors.command.program_config import PROMPT, SESSION_ID, SYSTEM_PROMPT, ProgramConfig, filled, text_of
from ao_executors.core import Answer, RunFailed, Task, converse
from ao_executors.core.conversation import occupy
from ao_executors.core.executor import refused
from ao_executors.core.program import ProgramEnded, ProgramRun
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log, Result, SessionBound

_MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""What an id of a session may be: neither an option nor a path."""


async def perform_by_program(task: Task) -> Result:
    """Return what a program answers.

    Raises:
        RunFailed: it is missing or fails, its session is not known, or its answer does not fit the contract.
    """
    config = ProgramConfig.read(task.config)
    with ExitStack() as held:
        program = AskedProgram(task, config, held)
        if task.invocation.mode == "resume":
            program.resume(task.invocation.executor_session_id or "")
        elif config.resume_argv is not None and config.session_pattern is None:
            program.bind(str(uuid4()))
        return await converse(task, program)


class AskedProgram:
    """A program that is started once for each answer. `held` is what keeps other runs out of its session."""

    def __init__(self, task: Task, config: ProgramConfig, held: ExitStack) -> None:
        self._task = task
        self._config = config
        self._held = held
        self._session: str | None = None
        self._knows_session = False
        self._said: list[str] = []

    def resume(self, session: str) -> None:
        """Go on with a session.

        Raises:
            RunFailed: it is busy, the program does not know it, or knows none at all.
        """
        if self._config.resume_argv is None:
            message = "the program cannot resume a session: executor_config has no resume_argv; start a new session"
            raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": ["resume"]})
        file = (self._config.session_file or ".").replace(SESSION_ID, session)
        if not _SESSION.fullmatch(session) or not Path(self._task.project_dir, file).exists():
            message = f"unknown session {session!r}; pass the executor_session_id of the last session_bound event"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
        self.bind(session)
        self._knows_session = True

    def bind(self, session: str) -> None:
        """Take a session and tell its id.

        Raises:
            RunFailed: another run is using it.
        """
        self._held.enter_context(occupy(f"command {self._config.argv[0]}", session))
        self._session = session
        self._task.events.emit(SessionBound(executor_session_id=session))

    async def ask(self, text: str) -> Answer:
        """Run the program and return what it answers.

        Where it has no session, it is shown all that was said before.

        Raises:
            RunFailed: it is missing, fails, or prints no answer.
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
        values = {PROMPT: text, SYSTEM_PROMPT: system_prompt, SESSION_ID: self._session or ""}
        arguments = filled(argv, values)
        program = self._config.find_program(argv[0], self._task.project_dir)
        takes_input = not any(PROMPT in argument for argument in argv)
        run = ProgramRun(
            [program, *arguments], _MAX_OUTPUT_BYTES, text.encode(errors="replace") if takes_input else None
        )
        try:
            started = run.started(self._task)
        except OSError as error:
            raise self._config.not_started(argv[0], str(error.strerror)) from error
        self._task.events.may_have_changed_something = True  # what it does besides answering, only it knows
        ended = await run.run_to_end(started)
        if ended.why_not_started is not None:
            raise self._config.not_started(argv[0], ended.why_not_started)
        return argv[0], ended

    def _learn_session(self, ended: ProgramEnded) -> None:
        """Find the program's own id of the session, which may be a new one each time.

        It is not looked for in text on stdout, which is the model's.
        """
        pattern = self._config.session_pattern
        if pattern is None or self._config.resume_argv is None:
            return
        places = [ended.stderr, ended.stdout] if self._config.answer_path else [ended.stderr]
        matches = (pattern.search(text_of(place.kept)) for place in places)
        session = next((match[1] for match in matches if match), None)
        if session is not None and session != self._session and _SESSION.fullmatch(session):
            self.bind(session)
        elif self._session is None and ended.return_code == 0:
            message = f"executor_config.session_pattern found no id of a session, but {session!r}; it cannot be resumed"
            self._task.events.emit(Log(level="warning", message=message))

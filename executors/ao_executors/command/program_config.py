"""The configuration of a program: its command lines, its sessions, and what its output and its end mean."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from ao_executors.core import RunFailed
from ao_executors.core.executor import refused
from ao_executors.core.program import MAX_ARGUMENT_BYTES, ProgramEnded
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject

PROMPT: Final = "{prompt}"
SYSTEM_PROMPT: Final = "{system_prompt}"
SESSION_ID: Final = "{session_id}"
_PLACEHOLDER: Final = re.compile(r"\{(?:prompt|system_prompt|session_id)\}")
_SHOWN_CHARACTERS: Final = 2000
_DELAY: Final = "retry_after_seconds"


@dataclass(frozen=True, slots=True)
class ProgramConfig:
    """An `executor_config` that fits its schema, checked for what the schema cannot say."""

    argv: list[str]
    resume_argv: list[str] | None
    session_pattern: re.Pattern[str] | None
    session_file: str | None
    answer_path: list[str]
    exit_codes: dict[str, str]
    error_patterns: list[tuple[re.Pattern[str], ErrorType]]
    install_hint: str

    @classmethod
    def read(cls, config: JsonObject) -> "ProgramConfig":
        """Return the configuration.

        Raises:
            RunFailed: a regular expression is none, or sessions have no name.
        """
        argv = cast("list[str]", config["argv"])  # this and all below is what the config_schema says
        resume_argv = cast("list[str] | None", config.get("resume_argv"))
        session_pattern = cast("str | None", config.get("session_pattern"))
        if resume_argv is not None:
            if not _holds(resume_argv, SESSION_ID):
                raise _invalid("resume_argv", f"has no {SESSION_ID}: the newest session may be another run's; add it")
            if session_pattern is None and not _holds(argv, SESSION_ID):
                raise _invalid("argv", f"has no {SESSION_ID}, and no session_pattern finds one; add one of them")
        patterns = cast("dict[str, str]", config.get("error_patterns", {}))
        return cls(
            argv,
            resume_argv,
            None if session_pattern is None else _compiled("session_pattern", session_pattern, groups=1),
            cast("str | None", config.get("session_file")),
            cast("str", config.get("output", "text")).split(".")[1:],
            cast("dict[str, str]", config.get("exit_codes", {})),
            [(_compiled("error_patterns", text), ErrorType(kind)) for text, kind in patterns.items()],
            cast("str", config.get("install_hint", "install it, or name its path in executor_config.argv")),
        )

    def find_program(self, name: str, folder: Path) -> str:
        """Return the path of a program: from PATH, or where its name has a slash, from `folder`.

        Raises:
            RunFailed: it is missing.
        """
        found = shutil.which(str(folder / name) if "/" in name else name)
        if found is None:
            place = f"in {folder}" if "/" in name else "on PATH"
            raise self.not_started(name, f"there is no such executable {place}")
        return found

    def not_started(self, name: str, reason: str) -> RunFailed:
        """Make the failure of a program that cannot be started."""
        message = f"the program {name!r} cannot be started: {reason}; {self.install_hint}"
        return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")

    def answer_of(self, name: str, ended: ProgramEnded) -> str:
        """Return the answer in what a program printed before it exited with 0.

        Raises:
            RunFailed: it printed too much, or nothing at the path.
        """
        if ended.stdout.is_cut:
            message = f"{name} printed {ended.stdout.total_bytes} bytes; at most {len(ended.stdout.kept)} are an answer"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="tool")
        printed = text_of(ended.stdout.kept)
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
        """Make the failure of a program that did not exit with 0, with the end of what it complained."""
        stderr, code = text_of(ended.stderr.kept), ended.return_code
        complaint = (stderr or text_of(ended.stdout.kept) or "it printed nothing")[-_SHOWN_CHARACTERS:]
        message = (
            f"{name} exited with {code}: {complaint}" if code > 0 else f"{name} died of signal {-code}: {complaint}"
        )
        for pattern, error_type in self.error_patterns:
            if match := pattern.search(stderr):
                return RunFailed(error_type, message, origin="provider", extra=_delay(match))
        if known := self.exit_codes.get(str(code)):
            return RunFailed(ErrorType(known), message, origin="provider")
        return RunFailed(ErrorType.TOOL_FAILED, message, origin="tool")


def filled(argv: list[str], values: dict[str, str]) -> list[str]:
    """Return the arguments behind the program, with `values` for their placeholders.

    No value passes for an option: one that begins with a dash has a space before it where it begins an argument,
    unless that stands behind `--`.

    Raises:
        RunFailed: a value is too long for an argument, or holds a NUL character.
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


def text_of(printed: bytes) -> str:
    """Return what was printed as text, without the white space around it."""
    return printed.decode(errors="replace").strip()


def _holds(argv: list[str], placeholder: str) -> bool:
    return any(placeholder in argument for argument in argv[1:])


def _compiled(name: str, pattern: str, groups: int = 0) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise _invalid(name, f"{pattern!r} is no regular expression of Python: {error}") from error
    if compiled.groups < groups:
        raise _invalid(name, f"{pattern!r} has no group; put the id of the session in parentheses")
    return compiled


def _invalid(name: str, reason: str) -> RunFailed:
    details = {"violations": [{"pointer": f"$.{name}", "message": reason}]}
    return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config does not fit: $.{name}: {reason}", details)


def _delay(match: re.Match[str]) -> dict[str, float]:
    try:
        return {_DELAY: float(match.groupdict().get(_DELAY) or "")}
    except ValueError:  # no such group, or no number in it
        return {}


def _documents(printed: str) -> list[JsonValue]:
    """Read JSON, or lines of JSON among others."""
    documents: list[JsonValue] = []
    for text in (printed, *printed.splitlines()):
        try:
            documents.append(json.loads(text))
        except (ValueError, RecursionError):
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

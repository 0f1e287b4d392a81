"""The suite for parsers, in any language: a codec reads questions on stdin and writes answers on stdout.

The suite writes all questions at once, then sorts, judges and counts the answers. It tests no process rules.
"""

import json
import os
import shlex
import threading
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn

from ao_conformance.driver.process import Process, Start
from ao_conformance.driver.transcript import OutputLine, Transcript, shown
from ao_conformance.matching import difference, short
from ao_conformance.tally import KnownFailing, SuiteRun, requirement_result
from ao_conformance.vectors import Document, Vector, requirements_by_id
from ao_conformance.verdict import Finding, SuiteResult, TranscriptEntry, VectorResult, Verdict

AS_PATHS: Final = frozenset({"problem_at"})
"""Names of fields with paths. An answer may add paths of values that contain one of them (SPEC 6.3)."""
WITH_WORDS: Final = frozenset({"details"})
"""Names of fields in which words such as `$newest_first` stand for values."""
AS_PIECE: Final = frozenset({"problem"})
"""Names of fields whose text must contain the vector's text. The wording is free, so an answer may omit the field."""
LINGER_SECONDS: Final = 1.0
"""How much longer the suite reads a codec that has written one line per question and does not end."""
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
SPARE_LINES: Final = 1_000
STDERR_SHOWN_BYTES: Final = 1_500
CODEC: Final = "codec"
LIMIT_SECONDS: Final = 60.0
STRAYS: Final = "codec-stdout"
"""The vector that fails if a line answers no question. It is in no vector file, and only in results that need it."""
STRAYS_SHOWN: Final = 5
Answer = tuple[OutputLine, Document]
"""A line that answers a question, and its JSON object."""
Stray = tuple[OutputLine, str]
"""A line that answers no question, and the reason as the rest of a sentence: `is no JSON: …`."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of one kind of vector, by their use."""

    asked: tuple[str, ...]
    """Fields of the question."""
    answered: tuple[str, ...]
    """Fields that the answer must have with the same value if the vector has them; compared in this order."""
    only: tuple[str, ...] = ()
    """Fields that the answer must not have if the vector lacks them; `null` and `false` count as absent."""


JUDGED_DOCUMENT: Final = Form(("document",), ("valid", "problem_at"))


FORMS: Final[Mapping[str, Form]] = {
    "line": Form(("line", "line_base64"), ("valid", "reason", "read_as")),
    "framing": Form(("max_line_bytes", "chunks_base64"), ("lines", "ended_mid_line")),
    "invocation": Form(("document",), ("valid", "error", "details", "problem_at", "announces")),
    "upgrade": Form(("document",), ("upgraded",)),
    "event": JUDGED_DOCUMENT,
    "description": JUDGED_DOCUMENT,
    "control_line": Form(("document",), ("valid", "problem_at", "ignored"), only=("ignored",)),
    "conversation": Form(("invocation", "events"), ("valid", "fault", "fault_at")),
    "exit_code": Form(("terminal",), ("exit_code",)),
    "inputs": Form(("mode", "parameters_schema", "parameters"), ("text", "problem_at"), only=("text", "problem_at")),
    "contract": Form(("demanded",), ("holds", "error", "problem"), only=("holds", "error")),
    "enrichment": Form(("system_prompt", "output_schema"), ("enriched",)),
}


class Question(Vector):
    """One vector, and the question that it puts to a codec."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of the vector, a key of `FORMS`."""
        return str(self.source["kind"])

    @property
    def line(self) -> bytes:
        """The question as one JSON line in ASCII that ends with LF. Documents keep the key order of the vector.

        A line to parse is in the field `line_base64`, and also in `line` if it is text.
        """
        asked = {name: self.source[name] for name in FORMS[self.kind].asked if name in self.source}
        if "line" in asked:
            asked["line_base64"] = b64encode(asked["line"].encode()).decode("ascii")
        return json.dumps({"id": self.id, "kind": self.kind, **asked}, separators=(",", ":")).encode() + b"\n"

    @property
    def names(self) -> Set[str]:
        """The id, the kind and the requirements."""
        return {self.id, self.kind, *self.requirements}


def load_questions() -> list[Question]:
    """Return all questions, in the order of the vector files."""
    return Question.load(FORMS, CODEC)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The input and the output of a codec."""

    lines: Sequence[OutputLine]
    """The lines of stdout; the last one may lack its line end."""
    asked_at: Sequence[float]
    """When each question was written, in seconds since the start; fewer than the questions if not all were written."""
    ending: str
    """How the codec ended, as the rest of a sentence: `exited with 0`."""
    stderr: str
    """The end of stderr."""
    seconds: float


def exchange(command: Sequence[str], questions: Sequence[bytes], limit_seconds: float) -> Exchange:
    """Start a codec in this directory and environment, write all questions, close its stdin, and read to the end.

    No process of the codec is alive afterwards. Time and memory are bounded.

    Raises:
        OSError: The codec cannot be started.
    """
    transcript = Transcript()
    asked_at: list[float] = []

    def ask() -> None:
        for line in questions:
            asked_at.append(transcript.seconds())
            if not process.write(line, limit_seconds):
                return
        process.close_stdin()

    def is_too_much() -> bool:
        lines = process.lines
        size = len(process.unfinished_line) + sum(len(line.raw) for line in lines)
        return size > MAX_OUTPUT_BYTES or len(lines) > len(questions) + SPARE_LINES

    with Process(Start(command, Path.cwd(), os.environ), transcript) as process:
        writer = threading.Thread(target=ask, daemon=True)
        writer.start()
        try:
            process.wait_for(lambda: is_too_much() or len(process.lines) >= len(questions), limit_seconds)
            process.wait_for(is_too_much, min(limit_seconds, transcript.seconds() + LINGER_SECONDS))
            ending = _ending(process, is_too_much=is_too_much())
        finally:
            # End the process before its pipe is closed, so that the writer never writes to a closed file.
            process.kill()
            writer.join()
        lines = process.lines
        if process.unfinished_line:
            lines.append(OutputLine(len(lines) + 1, transcript.seconds(), process.unfinished_line))
        stderr = process.stderr[-STDERR_SHOWN_BYTES:].decode(errors="backslashreplace").strip()
        seconds = transcript.seconds()
    return Exchange(lines, asked_at, ending, stderr, seconds)


def _ending(process: Process, *, is_too_much: bool) -> str:
    if is_too_much:
        return f"wrote too much (over {MAX_OUTPUT_BYTES:,} bytes, or {SPARE_LINES:,} lines too many), and was stopped"
    code = process.exit_code
    if code is None:
        return f"did not end, and was stopped after {process.transcript.seconds():.1f} seconds"
    return f"exited with {code}" if code >= 0 else f"was ended by signal {-code}"


def sort_lines(
    lines: Sequence[OutputLine], asked: Collection[str]
) -> tuple[Mapping[str, Sequence[Answer]], Sequence[Stray]]:
    """Return the answers by question id, in the order of their arrival, and the strays."""
    answers: dict[str, list[Answer]] = {}
    strays = []
    for line in lines:
        document = _document(line.raw)
        if isinstance(document, str):
            strays.append((line, document))
            continue
        name = document.get("id")
        if isinstance(name, str) and name in asked:
            answers.setdefault(name, []).append((line, document))
        else:
            strays.append((line, f"answers {name!r}, which was not asked"))
    return answers, strays


def _document(raw: bytes) -> Document | str:
    """Return the object on a line, or the reason why it has none. A lone surrogate stays: the codec must replace it."""
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        return f"is no JSON: {error}"
    return document if isinstance(document, dict) else "is no JSON object"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def mistake(vector: Document, answer: Document) -> tuple[str, str] | None:
    """Return the expected and the found value, as texts, of the first field that is wrong; None if none is."""
    form = FORMS[vector["kind"]]
    for name in form.answered:
        found = answer.get(name)
        if name not in vector:
            if name in form.only and found not in (None, False):
                return f"no {name}", f"{name} is {short(found)}"
            continue
        expected = vector[name]
        if name in AS_PIECE:
            if isinstance(found, str) and expected not in found:
                return f"{name} with {expected!r} in it", f"{name} is {short(found)}"
        elif name not in answer:
            return f"{name} is {short(expected)}", f"no {name}"
        elif name in AS_PATHS:
            given = set(map(str, found)) if isinstance(found, list) else set()
            if not are_paths(expected, given, or_inside=vector.get("or_inside", False)):
                return f"{name} is {short(expected)}", f"{name} is {short(found)}"
        elif (other := difference(expected, found, name, exact=name not in WITH_WORDS)) is not None:
            return f"{name} is {short(expected)}", other
    return None


def are_paths(expected: Collection[str], found: Set[str], *, or_inside: bool = False) -> bool:
    """Return whether all expected paths were found, and besides only those of values that contain one of them.

    With `or_inside` the path of a field in the object counts as that of the object (SPEC 6.3).
    """
    if or_inside:
        found = {next((path for path in expected if _contains(path, other)), other) for other in found}
    return found >= set(expected) and all(
        any(_contains(other, path) for path in expected) for other in found - set(expected)
    )


def _contains(path: str, inner: str) -> bool:
    return inner.startswith((f"{path}.", f"{path}["))


@dataclass(frozen=True, slots=True)
class CodecPlan:
    """The options for a test of a codec."""

    command: tuple[str, ...]
    questions: Sequence[Question]
    known_failing: KnownFailing = field(default_factory=KnownFailing)
    limit_seconds: float = LIMIT_SECONDS
    """The limit for all questions together."""


def run_codec_suite(plan: CodecPlan, tell: Callable[[VectorResult], None] = lambda result: None) -> SuiteResult:
    """Ask a codec all questions and return the result. `tell` is called with the result of each vector.

    Raises:
        OSError: The command cannot be started.
    """
    run = SuiteRun(plan.known_failing)
    came = exchange(plan.command, [question.line for question in plan.questions], plan.limit_seconds)
    vectors = _judged_vectors(plan, came, tell)
    named = {name for vector in vectors for name in vector.requirements}
    tested = [rule for rule in requirements_by_id().values() if rule.id in named]
    # Requirements that no process test can show count here, too.
    requirements = [requirement_result(replace(rule, untestable=None), vectors) for rule in tested]
    name = shlex.join(plan.command)
    return run.result(vectors, requirements, suite=CODEC, command=plan.command, name=name, level=CODEC)


def _judged_vectors(plan: CodecPlan, came: Exchange, tell: Callable[[VectorResult], None]) -> list[VectorResult]:
    answers, strays = sort_lines(came.lines, {question.id for question in plan.questions})
    unanswered = [question.id for question in plan.questions if question.id not in answers]
    results = []
    for number, question in enumerate(plan.questions):
        given = answers.get(question.id, ())
        result = replace(
            _result_of(question, given, f"no answer; the command {came.ending}{_where_to_look(question, unanswered)}"),
            transcript=_transcript(question, came.asked_at[number : number + 1], given, came),
            reproduce=shlex.join(["ao", "conformance", "codec", "--only", question.id, "--", *plan.command]),
        )
        tell(result)
        results.append(result)
    return [*results, _stray_result(strays)] if strays else results


def _where_to_look(question: Question, unanswered: Sequence[str]) -> str:
    if len(unanswered) < 2:
        return ""
    is_first = question.id == unanswered[0]
    first = "this is the first question without an answer"
    return f", and {first if is_first else f'the first question without an answer is {unanswered[0]}'}"


def _result_of(question: Question, given: Sequence[Answer], silence: str) -> VectorResult:
    match given:
        case []:
            return _failed(question, "an answer", silence, line=None)
        case [_, _, *_]:
            numbers = " and ".join(str(line.number) for line, _ in given)
            return _failed(question, "one answer", f"{len(given)} answers, on lines {numbers} of stdout")
    ((_, answer),) = given
    if answer.get("unsupported") is True:
        return question.result(Verdict.NOT_APPLICABLE, "the codec does not support this question")
    if "speaks" in question.source and answer.get("error") == "unsupported_schema_version":
        return question.result(Verdict.NOT_APPLICABLE, f"the codec does not speak {question.source['speaks']}")
    wrong = mistake(question.source, answer)
    return _failed(question, *wrong) if wrong else question.judged((), judged=question.requirements)


def _failed(question: Question, expected: str, found: str, line: int | None = 1) -> VectorResult:
    """Return a result with a finding for each requirement: one answer does not show which of them is broken."""
    rules = requirements_by_id()
    findings = tuple(
        Finding(name, expected, found, Verdict.WARN if rules[name].keyword == "SHOULD" else Verdict.FAIL, line)
        for name in question.requirements
    )
    return question.judged(findings, judged=question.requirements)


def _transcript(
    question: Question, asked_at: Sequence[float], given: Sequence[Answer], came: Exchange
) -> tuple[TranscriptEntry, ...]:
    entries = [TranscriptEntry(round(seconds, 3), "stdin", shown(question.line.rstrip())) for seconds in asked_at]
    entries += [TranscriptEntry(round(line.seconds, 3), "stdout", shown(line.raw.rstrip())) for line, _ in given]
    if not given:
        if came.stderr:
            entries.append(TranscriptEntry(round(came.seconds, 3), "stderr", came.stderr))
        entries.append(TranscriptEntry(round(came.seconds, 3), "note", f"the command {came.ending}"))
    return tuple(entries)


def _stray_result(strays: Sequence[Stray]) -> VectorResult:
    told = [f"line {line.number} {why}" for line, why in strays[:STRAYS_SHOWN]]
    more = [f"and {len(strays) - STRAYS_SHOWN} more"] if len(strays) > STRAYS_SHOWN else []
    return replace(
        Vector(STRAYS, "every line on stdout is the answer to a question", CODEC, (), CODEC, {}).result(Verdict.FAIL),
        reason="; ".join([*told, *more]),
        transcript=tuple(
            TranscriptEntry(round(line.seconds, 3), "stdout", shown(line.raw.rstrip()))
            for line, _ in strays[:STRAYS_SHOWN]
        ),
    )

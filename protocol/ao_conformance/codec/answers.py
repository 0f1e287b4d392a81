"""From lines of stdout to answers: which question each belongs to, and what belongs to none."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ao_conformance.driver.transcript import OutputLine


@dataclass(frozen=True, slots=True)
class Answer:
    """A line that answers a question."""

    line: OutputLine
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stray:
    """A line that answers no question."""

    line: OutputLine
    why: str
    """As the rest of a sentence about the line: `is no JSON: …`."""


class NoDocument(ValueError):
    """A line is not one JSON object; the text says what it is instead."""


def sort_lines(
    lines: Sequence[OutputLine], asked: Collection[str]
) -> tuple[Mapping[str, Sequence[Answer]], Sequence[Stray]]:
    """Return the answers by the id of their question, in the order in which they came, and the strays."""
    answers: dict[str, list[Answer]] = {}
    strays = []
    for line in lines:
        try:
            document = _document(line.raw)
        except NoDocument as error:
            strays.append(Stray(line, str(error)))
            continue
        name = document.get("id")
        if isinstance(name, str) and name in asked:
            answers.setdefault(name, []).append(Answer(line, document))
        else:
            strays.append(Stray(line, f"answers {name!r}, which was not asked"))
    return answers, strays


def _document(raw: bytes) -> Mapping[str, Any]:
    """Read a line as it is: a lone surrogate stays one, since a codec has to replace it itself."""
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError as error:
        raise NoDocument("is nested too deeply") from error
    except ValueError as error:
        raise NoDocument(f"is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise NoDocument("is no JSON object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

"""Names in a document that no reader looks at: passed over, and worth a remark, since they may be slips of the pen."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from pydantic import BaseModel

from ao_protocol.json_path import ROOT, below
from ao_protocol.output.agent_response.model import AgentResponse, Finding, RelevantFile, Results
from ao_protocol.output.agent_response.notes import MAX_NOTES, Notes, RemarkKind

_MAX_COMPARED_CHARACTERS: Final = 80
_MODELS: Final[tuple[type[BaseModel], ...]] = (AgentResponse, Finding, Results, RelevantFile)
_KNOWN: Final = {model: frozenset(model.model_fields) for model in _MODELS}

_Part: TypeAlias = tuple[str, int | None, object, type[BaseModel]]
"""A place, an index in it where it is a list, what stands there, and the model that it should fit."""


def remark_unknown_names(document: Mapping[str, object], notes: Notes) -> None:
    """Remark each unknown name once, where it stands first, with the name that was perhaps meant."""
    found: dict[tuple[type[BaseModel], str], tuple[str, int]] = {}
    for above, index, part, model in _parts(document):
        if not isinstance(part, Mapping) or part.keys() <= _KNOWN[model]:
            continue
        place = above if index is None else below(above, index)
        for name in part:
            if name not in _KNOWN[model]:
                first, count = found.get((model, name), (below(place, name), 0))
                found[model, name] = first, count + 1
    for told, ((model, name), (place, count)) in enumerate(found.items()):
        # Comparing costs more than counting, and what is told beyond the limit is only counted.
        meant = _perhaps_meant(name, model) if told < MAX_NOTES else ""
        often = f", {count} times" if count > 1 else ""
        notes.remark(RemarkKind.PASSED_OVER, place, f"an unknown name{often}{meant}")


def _parts(document: Mapping[str, object]) -> Iterator[_Part]:
    yield ROOT, None, document, AgentResponse
    yield from _items("$.findings", document.get("findings"), Finding)
    results = document.get("results")
    yield "$.results", None, results, Results
    if isinstance(results, Mapping):
        yield from _items("$.results.files", results.get("files"), RelevantFile)


def _items(place: str, items: object, model: type[BaseModel]) -> Iterator[_Part]:
    for index, item in enumerate(items) if isinstance(items, list) else ():
        yield place, index, item, model


def _perhaps_meant(name: str, model: type[BaseModel]) -> str:
    import difflib

    close = difflib.get_close_matches(name[:_MAX_COMPARED_CHARACTERS], model.model_fields, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

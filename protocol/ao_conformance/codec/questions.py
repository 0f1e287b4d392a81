"""The published vectors that need no process, as questions: what goes in, without what must come out."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ao_conformance.codec.forms import FORMS
from ao_protocol.published import load_vector_files


@dataclass(frozen=True, slots=True)
class Question:
    """One vector, and what a codec is asked about it."""

    id: str
    title: str
    topic: str
    kind: str
    requirements: tuple[str, ...]
    source: Mapping[str, Any]
    """The whole vector as it stands in its file."""

    @property
    def line(self) -> bytes:
        r"""The question as one JSON line: ASCII, ended by LF, keys of documents in the vector's order.

        A line is there as `line_base64`, and as `line` too where it is text.
        """
        asked = {name: self.source[name] for name in FORMS[self.kind].asked if name in self.source}
        if "line" in asked:
            asked["line_base64"] = b64encode(asked["line"].encode()).decode("ascii")
        return json.dumps({"id": self.id, "kind": self.kind, **asked}, separators=(",", ":")).encode() + b"\n"

    def is_meant_by(self, names: Iterable[str]) -> bool:
        """Say whether its id, its kind or one of its requirements is among the names."""
        return not {self.id, self.kind, *self.requirements}.isdisjoint(names)


def load_questions() -> list[Question]:
    """Return all of them, in the order of the vector files."""
    return [
        Question(
            vector["id"], vector["title"], document["topic"], vector["kind"], tuple(vector["requirements"]), vector
        )
        for _, document in load_vector_files()
        for vector in document["vectors"]
        if vector["kind"] in FORMS
    ]

"""What the file of recorded answers contains, and how what differs each time is replaced in it.

An id becomes `<name>` where the script of calls named it, a time `<time>`, a number of rows or seconds 0.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RECORDED: Final = Path(__file__).parent / "recorded.json"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)")
_TEXTS: Final = {"created_at", "modified_at", "updated_at"}
_NUMBERS: Final = {"id", "seconds_since_heartbeat"}


@dataclass
class Names:
    """The ids of one play of the calls, by the placeholders that stand for them."""

    values: dict[str, str] = field(default_factory=dict)

    def keep(self, places: dict[str, str], body: Any) -> None:
        """Remember values of an answer: placeholder to the field's path, such as `run.run_id`."""
        for placeholder, path in places.items():
            value = body
            for key in path.split("."):
                value = value[key]
            self.values[placeholder] = value

    def fill(self, document: Any) -> Any:
        """Return a document of the file with the ids of this play."""
        text = json.dumps(document)
        for placeholder, value in self.values.items():
            text = text.replace(placeholder, value)
        return json.loads(text)

    def cover(self, document: Any) -> Any:
        """Return an answer with placeholders for everything that differs each time."""
        if isinstance(document, dict):
            return {name: self._covered(name, value) for name, value in document.items()}
        if isinstance(document, list):
            return [self.cover(one) for one in document]
        if not isinstance(document, str):
            return document
        for placeholder, value in self.values.items():
            document = document.replace(value, placeholder)
        return _TIME.sub("<time>", document)

    def _covered(self, name: str, value: Any) -> Any:
        if name in _TEXTS and value:
            return "<time>"
        if name in _NUMBERS and isinstance(value, int | float):
            return 0
        return self.cover(value)


def load() -> dict[str, Any]:
    """Return the file: `date`, `repository`, `commit` and `exchanges`."""
    document: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return document

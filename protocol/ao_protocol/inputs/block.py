r"""The `<inputs>` block: parameters as text for the model (SPEC 8.2).

| value | form |
| --- | --- |
| string of one line | `key: text` |
| string of several lines | `key: |`, then each line indented by two spaces |
| empty string | `key: ""` |
| number, boolean, null | as JSON: `key: 3`, `key: true`, `key: null` |
| list, object | as compact JSON on one line: `key: ["a","b"]` |

A key that is no plain word is written as a JSON string. Whatever looks like a tag of the block inside a key or
a value has its `<` replaced by `&lt;`, so that a value can neither close the block nor open another.
"""

import json
import re
from typing import Final

from pydantic import JsonValue

from ao_protocol.wire import JsonObject

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_BLOCK_TAG: Final = re.compile(r"<(?=\s*/?\s*inputs\b)", re.IGNORECASE)
_LINE_END_IN_JSON: Final = re.compile("[\x85\u2028\u2029]")


def format_inputs(parameters: JsonObject) -> str:
    """Return the block for validated parameters, in their order."""
    lines = (f"{_key(name)}: {_value(value)}" for name, value in parameters.items())
    body = _BLOCK_TAG.sub("&lt;", "\n".join(lines))
    return f"<inputs>\n{body}\n</inputs>" if body else "<inputs>\n</inputs>"


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else _json(name)


def _value(value: JsonValue) -> str:
    if not isinstance(value, str) or not value:
        return _json(value)
    lines = value.splitlines()
    if lines == [value]:
        return value
    # Every line end that a reader may see counts, or a value could fake a field of its own.
    if value[-1].splitlines() == [""]:
        lines.append("")
    return "\n".join(("|", *(f"  {line}" for line in lines)))


def _json(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _LINE_END_IN_JSON.sub(lambda end: f"\\u{ord(end[0]):04x}", text)

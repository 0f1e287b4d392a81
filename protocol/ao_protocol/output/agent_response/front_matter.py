"""Front matter: the few lines of YAML that a response in Markdown begins with, names and texts only."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ao_protocol.output.agent_response.plain_text import BLANKS
from ao_protocol.output.agent_response.refusals import NotWellFormed, excerpt

FRONT_MATTER: Final = re.compile(
    r"^---[ \t]*\n(?:(?:[A-Za-z_][A-Za-z0-9_-]*:[^\n]*|#[^\n]*|[ \t]*)\n){0,40}agent:[^\n]*\n", re.MULTILINE
)
"""Where front matter that names an agent begins."""

_LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(.*)")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NO_STRINGS_IN_YAML: Final = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})
_COMMENT: Final = re.compile(r"[ \t]#.*")


def front_matter_lines(values: Mapping[str, str]) -> Iterator[str]:
    """Yield front matter that YAML and `read_front_matter` read alike, and the blank line behind it."""
    yield "---"
    for name, text in values.items():
        is_plain = _PLAIN.fullmatch(text) and text.lower() not in _NO_STRINGS_IN_YAML
        yield f"{name}: {text if is_plain else _quoted(text)}"
    yield from ("---", "")


def _quoted(text: str) -> str:
    # YAML knows no pairs of surrogates, so what is beyond U+FFFF stays itself.
    return re.sub(
        "[\x7f-\xa0\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def read_front_matter(text: str) -> tuple[dict[str, str], str, int]:
    """Return the values of the front matter, the text behind it, and the line on which that begins.

    Without front matter there are no values. Values are texts, whatever YAML would take them for.

    Raises:
        NotWellFormed: the front matter has no end, or a line of it is no `name: text`.
    """
    lines = text.lstrip(BLANKS).split("\n")
    first = text.count("\n", 0, len(text) - len(text.lstrip(BLANKS))) + 1
    if lines[0].rstrip(BLANKS) != "---":
        return {}, text, 1
    values: dict[str, str] = {}
    for index, line in enumerate(lines[1:], 1):
        if line.rstrip(BLANKS) in {"---", "..."}:
            return values, "\n".join(lines[index + 1 :]), first + index + 1
        if line.strip(BLANKS) and not line.startswith("#"):
            name, value = _entry(line, f"line {first + index}")
            if name in values:
                raise NotWellFormed(f"line {first + index}", f"a second {name}", "each name once")
            values[name] = value
    raise NotWellFormed(f"line {first}", "front matter without an end", "a line --- behind it")


def _entry(line: str, place: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise NotWellFormed(place, excerpt(line), "a line such as 'agent: your-name'")
    return found[1], _value(found[2].strip(BLANKS), place)


def _value(written: str, place: str) -> str:
    if written.startswith('"'):
        try:
            value, _ = json.JSONDecoder().raw_decode(written)
        except json.JSONDecodeError as error:
            raise NotWellFormed(place, excerpt(written), "a text between two quotation marks") from error
        return str(value)
    if written.startswith("'") and written.endswith("'") and len(written) > 1:
        return written[1:-1].replace("''", "'")
    return _COMMENT.sub("", written).strip(BLANKS)

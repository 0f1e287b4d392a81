"""Values that some program accepts and another one cannot read: one list for the tests of every door.

Each is JSON as bytes, as it stands for the prompt of a run. `problem` is what a refusal says behind the place
`$.parameters.prompt`, or where the text itself is no JSON, the whole sentence; None for a value that is accepted.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class OddValue:
    """A value and how it is refused."""

    written: bytes
    problem: str | None = None
    is_text: bool = True
    """Whether the bytes are UTF-8 and one JSON text, so that the problem has a path."""


HALF: Final = "holds half a surrogate pair, which is no text"
DEEP: Final = "is nested deeper than"


def _nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ODD_VALUES: Final[dict[str, OddValue]] = {
    "high surrogate": OddValue(rb'"\ud800"', HALF),
    "low surrogate": OddValue(rb'"x\udfffy"', HALF),
    "reversed pair": OddValue(rb'"\udc00\ud800"', HALF),
    "surrogate in a key": OddValue(rb'{"\ud800": 1}', HALF),
    "surrogate deep inside": OddValue(rb'{"a": [{"b": "\udead"}]}', HALF),
    "60 levels": OddValue(_nested(60)),
    "61 levels": OddValue(_nested(61)),
    "62 levels": OddValue(_nested(62), DEEP),
    "66 levels": OddValue(_nested(66), DEEP),
    "900 levels": OddValue(_nested(900), DEEP),
    "100,000 levels": OddValue(_nested(100_000), "nested deeper than", is_text=False),
    "2^53": OddValue(b"9007199254740992", "is outside"),
    "-2^53": OddValue(b"-9007199254740992", "is outside"),
    "10^400": OddValue(b"1" + b"0" * 400, "is outside"),
    "5,000 digits": OddValue(b"9" * 5000, "is outside"),
    "1e400": OddValue(b"1e400", "the number 1e400 is too large"),
    "-1e400": OddValue(b"[-1e400]", "the number -1e400 is too large"),
    "NaN": OddValue(b"NaN", "NaN is not JSON"),
    "-Infinity": OddValue(b'{"a": -Infinity}', "-Infinity is not JSON"),
    "key twice": OddValue(b'{"a": 1, "a": 2}', 'duplicate key "a"'),
    "key twice in a list": OddValue(b'[0, {"a": {"b": 1, "b": 1}}]', 'duplicate key "b"'),
    "Latin-1": OddValue(b'"caf\xe9"', "is not UTF-8", is_text=False),
    "overlong slash": OddValue(b'"\xc0\xaf"', "is not UTF-8", is_text=False),
    "surrogate in UTF-8": OddValue(b'"\xed\xa0\x80"', "is not UTF-8", is_text=False),
    "no end": OddValue(b'"', "Unterminated string", is_text=False),
    "control character": OddValue(b'"a\x00b"', "Invalid control character", is_text=False),
    "NUL": OddValue(rb'"a\u0000b"'),
    "NUL in a key": OddValue(rb'{"a\u0000": 1}'),
    "escape sequence": OddValue(rb'"\u001b]52;c;aGk=\u0007"'),
    "noncharacters": OddValue('"\uffff\ufdd0\U0010ffff"'.encode()),
    "right to left": OddValue('"\u202egnp.exe"'.encode()),
    "zero width": OddValue('"\u200b\u2060\ufeff"'.encode()),
    "a pair": OddValue(rb'"\ud83d\ude00"'),
    "byte-order mark": OddValue(b'"\xef\xbb\xbfhi"'),
}
"""The accepted ones are read again as they were written."""

ODD_NAMES: Final[dict[str, tuple[str, bool]]] = {
    "slash": ("a/b", True),
    "like a call": ("a/stop", True),
    "upwards": ("../../etc", True),
    "question mark": ("a?b", True),
    "hash": ("a#b", True),
    "percent sign": ("100%", True),
    "encoded slash": ("a%2Fb", True),
    "encoded percent sign": ("a%252Fb", True),
    "space": (" ", True),
    "not ASCII": ("é\u202e\U0001f600", True),
    "512 characters": ("x" * 512, True),
    "noncharacter": ("\ufdd0", True),
    "empty": ("", False),
    "dot": (".", False),
    "dots": ("..", False),
    "NUL": ("a\0b", False),
    "line end": ("a\nb", False),
    "escape": ("a\x1bb", False),
    "C1 control": ("a\x9bb", False),
    "513 characters": ("x" * 513, False),
}
"""Names that somebody may give a session, and whether they are accepted."""

"""Durations as people write them: one form for options, configuration and URLs."""

import math
import re
from contextlib import suppress
from typing import Final

from ao_protocol.short_text import shorten

WITH_UNITS: Final = "500ms, 8s, 30m, 2h, 1d or 1h30m"
FORMS: Final = f"seconds as a number, or {WITH_UNITS}"
MOST_SECONDS: Final = 99_999 * 86_400.0
_UNITS: Final = (86400, 3600, 60, 1, 0.001)
_WITH_UNITS: Final = re.compile("".join(rf"(?:([0-9]{{1,12}}){unit})?" for unit in ("d", "h", "m", "s", "ms")))
_NUMBER: Final = re.compile(r"[0-9.]+(?:e[0-9]+)?")


def seconds_from(written: object, least_seconds: float = 0.0, *, needs_unit: bool = False) -> object:
    """Return the seconds for a text; return any other value unchanged.

    Args:
        written: A text in one of `FORMS`.
        least_seconds: The minimum.
        needs_unit: Whether a number alone is refused, where another unit than seconds is as likely.

    Raises:
        ValueError: The text is no duration, or out of bounds; the message says what is expected and what was found.
    """
    if not isinstance(written, str):
        return written
    seconds = math.nan
    if written and (found := _WITH_UNITS.fullmatch(written)):
        seconds = sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS, strict=True))
    elif not needs_unit and _NUMBER.fullmatch(written):
        with suppress(ValueError):
            seconds = float(written)
    if not least_seconds <= seconds <= MOST_SECONDS:
        least = f", at least {least_seconds:g} s" if least_seconds else ""
        expected = f"a duration with its unit: {WITH_UNITS}" if needs_unit else f"a duration: {FORMS}"
        raise ValueError(f"expected {expected}{least}, found {shorten(written, 80)!r}")
    return seconds

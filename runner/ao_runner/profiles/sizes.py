"""Sizes as people write them: `512MiB`, `2GB`, or a number of bytes. Pure."""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.wire import Integer

BYTES_IN: Final = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}

_SIZE: Final = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?P<unit>[A-Za-z]{1,3})")


def bytes_from(written: object) -> object:
    """Return the bytes that a text means; anything else is passed on as it is.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(written, str):
        return written
    parts = _SIZE.fullmatch(written)
    if parts is None or parts["unit"] not in BYTES_IN:
        shown = written if len(written) <= 80 else f"{written[:80]}…"
        raise ValueError(f"expected a number of bytes, or text such as '512MiB' or '2GB', found {shown!r}")
    return int(Decimal(parts["number"]) * BYTES_IN[parts["unit"]])


Bytes = Annotated[Integer, BeforeValidator(bytes_from), Field(ge=1, le=MAX_SAFE_INTEGER)]

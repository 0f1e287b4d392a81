"""Files beside the prompt: which are refused, and what the model receives of the others (SPEC 4.1)."""

import base64
import os
import stat
from collections.abc import Sequence
from typing import Any

from errors import RunFailed

IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"]
PDF = "application/pdf"
MEDIA_TYPES = [*IMAGES, PDF]
MAX_BYTES = 32 * 1024 * 1024
ATTACHMENT = {
    "type": "object",
    "required": ["name", "media_type"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "media_type": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*$"},
        "path": {"type": "string", "pattern": "^/"},
        "data": {"type": "string", "pattern": r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    },
    "oneOf": [{"required": ["path"]}, {"required": ["data"]}],
}
ATTACHMENTS = {"type": "array", "maxItems": 32, "items": ATTACHMENT}


def blocks_of(attachments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks of a user message.

    Raises:
        RunFailed: the model takes no such file, or there is none.
    """
    if missing := [one["media_type"] for one in attachments if one["media_type"] not in MEDIA_TYPES]:
        details = {"missing": [f"attachments:{media_type}" for media_type in missing]}
        message = f"the model takes no {', '.join(missing)}; it takes {', '.join(MEDIA_TYPES)}"
        raise RunFailed("unsupported_capability", message, details=details)
    problems = [(f"$.attachments[{at}].path", _fault_of(one.get("path"))) for at, one in enumerate(attachments)]
    if found := [f"{path}: {fault}" for path, fault in problems if fault]:
        raise RunFailed("invalid_invocation", f"{found[0]}; name a file", details={"problems": found})
    return [_block(one) for one in attachments]


def _fault_of(path: str | None) -> str:
    if path is None:
        return ""
    try:
        about = os.stat(path)  # noqa: PTH116  # pathlib costs 5 ms at every start
    except (OSError, ValueError) as error:
        return f"{path!r} cannot be read: {error}"
    if not stat.S_ISREG(about.st_mode) or not os.access(path, os.R_OK):
        return f"{path!r} is no file that can be read"
    return f"{path!r} has more than {MAX_BYTES} bytes" if about.st_size > MAX_BYTES else ""


def _block(attachment: dict[str, Any]) -> dict[str, Any]:
    data = attachment.get("data")
    if data is None:
        with open(attachment["path"], "rb") as file:  # noqa: PTH123  # pathlib costs 5 ms at every start
            data = base64.b64encode(file.read()).decode()
    kind = "image" if attachment["media_type"] in IMAGES else "document"
    return {"type": kind, "source": {"type": "base64", "media_type": attachment["media_type"], "data": data}}

"""Forms with files: their texts, and the files as attachments of a run."""

import base64

from fastapi import Request
from starlette.datastructures import UploadFile

from ao_protocol.wire import JsonObject
from ao_runner.runs.attaching import guessed_type
from ao_server.gate import MAX_BODY_BYTES

ATTACHED = "attachments"
"""The name of the field with files."""


async def read_form(request: Request) -> tuple[dict[str, str], list[JsonObject]]:
    """Return the texts of a form by the names of their fields, and its files as attachments with their bytes."""
    async with request.form(max_part_size=MAX_BODY_BYTES) as form:
        texts = {key: text for key, text in form.items() if isinstance(text, str)}
        files = [file for file in form.getlist(ATTACHED) if isinstance(file, UploadFile) and file.filename]
        return texts, [_attachment(file.filename or "", file.content_type, await file.read()) for file in files]


def _attachment(name: str, media_type: str | None, content: bytes) -> JsonObject:
    told = (media_type or guessed_type(name) or "").partition(";")[0].strip().lower()
    return {"name": name, "media_type": told, "data": base64.b64encode(content).decode()}

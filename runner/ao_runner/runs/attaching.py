"""The attachments of a run before it is accepted: made from files of this host, and checked."""

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ao_protocol.attachments import Attachment, Attachments, problems_of_files
from ao_protocol.wire import JsonObject, WireModel, problems_of
from ao_runner.errors import RunnerError


@dataclass(eq=False)
class MediaTypeUnknown(RunnerError):
    """The suffix of a file says no media type, or the one that is given is none."""

    file: Path
    given: str | None = None

    def __str__(self) -> str:
        if self.given is not None:
            return f"{self.given!r} is not a media type such as application/pdf; name that of {self.file}"
        return f"the suffix of {self.file} says no media type; name it: --attach {self.file}:TYPE, or an Attachment"


def guessed_type(name: str) -> str | None:
    """Return the media type that the suffix of a file says; None if it says none, or that the file is compressed."""
    guessed, encoding = mimetypes.guess_type(name, strict=False)
    return guessed if encoding is None else None


def attachment_of(file: Path, media_type: str | None = None) -> Attachment:
    """Return the attachment with the path of a file.

    Args:
        file: The file, which need not exist.
        media_type: Its media type, in any case of letters; by default that of its suffix.

    Raises:
        MediaTypeUnknown: The suffix says none, or the given one has another form.
    """
    found = media_type or guessed_type(file.name)
    if found is None:
        raise MediaTypeUnknown(file)
    try:
        return Attachment(name=file.name, media_type=found.lower(), path=str(file.absolute()))
    except ValidationError as error:
        raise MediaTypeUnknown(file, found) from error


def with_bytes(attachment: JsonObject) -> JsonObject:
    """Return an attachment with the bytes of its file instead of its path, for a worker on another host.

    Raises:
        OSError: The file cannot be read.
    """
    data = base64.b64encode(Attachment.model_validate(attachment).read()).decode()
    return {**{name: value for name, value in attachment.items() if name != "path"}, "data": data}


class _Attached(WireModel):
    attachments: Attachments


def problems_of_attachments(attachments: Sequence[JsonObject], *, reads_files: bool) -> list[str]:
    """Return what is wrong with the attachments of a run, each as `path: message`.

    Args:
        attachments: Those of a request.
        reads_files: Whether the run is performed on this host, so that their files have to be readable.
    """
    document: JsonObject = {"attachments": list(attachments)}
    try:
        checked = _Attached.model_validate(document).attachments
    except ValidationError as error:
        return problems_of(error, document)
    return list(problems_of_files(checked)) if reads_files else []

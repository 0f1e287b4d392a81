"""Attachments: files that accompany the prompt of a run (SPEC 4.1)."""

import base64
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from ao_protocol.field_rules import OF_AN_ATTACHMENT
from ao_protocol.wire import Name, WireModel

MAX_ATTACHMENTS: Final = 32
MAX_ATTACHMENT_BYTES: Final = 32 * 1024 * 1024

_PART_OF_A_TYPE: Final = r"[a-z0-9][a-z0-9!#$&^_.+-]*"
MediaType = Annotated[str, Field(pattern=f"^{_PART_OF_A_TYPE}/{_PART_OF_A_TYPE}$")]
MediaRange = Annotated[str, Field(pattern=rf"^{_PART_OF_A_TYPE}/({_PART_OF_A_TYPE}|\*)$")]
_BASE64: Final = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class Attachment(WireModel):
    """A file beside the prompt: a path on the executor's host, or its bytes. Exactly one of the two is given."""

    model_config = ConfigDict(json_schema_extra=OF_AN_ATTACHMENT)

    name: Name
    """For people and for the model."""
    media_type: MediaType
    """In lower case and without parameters, such as `application/pdf`."""
    path: Annotated[str, Field(pattern=r"^/")] | None = None
    """The absolute path of a file."""
    data: Annotated[str, Field(pattern=_BASE64)] | None = None
    """The bytes in base64 (RFC 4648, section 4)."""

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Self:
        if (self.path is None) == (self.data is None):
            raise ValueError("expected either path or data")
        return self

    def read(self) -> bytes:
        """Return the bytes of the attachment.

        Raises:
            OSError: The file cannot be read.
        """
        return base64.b64decode(self.data) if self.data is not None else Path(self.path or "").read_bytes()


Attachments: TypeAlias = Annotated[list[Attachment], Field(max_length=MAX_ATTACHMENTS)]


def matches(media_type: str, ranges: Sequence[str]) -> bool:
    """Return whether one of the ranges, such as `image/png` or `image/*`, covers a media type."""
    return media_type in ranges or f"{media_type.partition('/')[0]}/*" in ranges


def problems_of_files(attachments: Sequence[Attachment]) -> Iterator[str]:
    """Yield a problem, as `path: message`, for each attachment whose file cannot be read or is too large."""
    for index, attachment in enumerate(attachments):
        if attachment.path is None:
            continue
        try:
            about = os.stat(attachment.path)  # noqa: PTH116  # `Path` raises other errors for odd paths
        except (OSError, ValueError) as error:
            problem = f"{attachment.path!r} cannot be read: {getattr(error, 'strerror', None) or error}"
        else:
            problem = _problem_of(attachment.path, about)
        if problem:
            yield f"$.attachments[{index}].path: {problem}"


def _problem_of(path: str, about: os.stat_result) -> str:
    if not stat.S_ISREG(about.st_mode):
        return f"{path!r} is not a file"
    if not os.access(path, os.R_OK):
        return f"{path!r} cannot be read: permission denied"
    if about.st_size > MAX_ATTACHMENT_BYTES:
        return f"{path!r} has {about.st_size} bytes, and at most {MAX_ATTACHMENT_BYTES} are allowed"
    return ""

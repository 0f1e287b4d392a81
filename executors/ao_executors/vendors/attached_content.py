"""Read the attachments of a run, and refuse those whose bytes are not of their media type (SPEC 4.1)."""

from collections.abc import Iterator, Sequence
from typing import Final

from ao_executors.core.executor import refused
from ao_protocol.attachments import Attachment
from ao_protocol.errors import ErrorType

_FIRST_BYTES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""Agents replace an image that they cannot read with a sentence to the model."""


def contents_of(attachments: Sequence[Attachment]) -> Iterator[tuple[Attachment, bytes]]:
    """Yield each attachment with its bytes.

    Raises:
        RunFailed: A file cannot be read, or is not of its type: an image by its first bytes, a text by its UTF-8
            (`invalid_invocation`).
    """
    for index, attachment in enumerate(attachments):
        try:
            content = attachment.read()
            if attachment.media_type == "text/plain":
                content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise _refusal(index, attachment, f"cannot be read: {error}") from error
        if not content.startswith(_FIRST_BYTES.get(attachment.media_type, b"")):
            raise _refusal(index, attachment, f"is not {attachment.media_type}: it begins with {content[:8]!r}")
        yield attachment, content


def _refusal(index: int, attachment: Attachment, reason: str) -> Exception:
    problem = f"$.attachments[{index}]: {attachment.name!r} {reason}"
    return refused(ErrorType.INVALID_INVOCATION, problem, {"problems": [problem]})

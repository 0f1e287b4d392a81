"""The user message of a run: its attachments in their order, then its text (SPEC 4.1)."""

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from ao_executors.core.executor import refused
from ao_protocol.attachments import Attachment
from ao_protocol.errors import ErrorType

_TEXT: Final = "text/plain"
_BEGINNINGS: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The first bytes of images. The CLI replaces an image that it cannot read with a sentence to the model."""


def user_message(attachments: Sequence[Attachment], text: str) -> str | AsyncIterator[dict[str, Any]]:
    """Return what `ClaudeSDKClient.query` takes: the text alone, or one message with the attachments before it.

    Raises:
        RunFailed: An attachment cannot be read, or its bytes are not of its media type (`invalid_invocation`).
    """
    if not attachments:
        return text
    blocks = [block for attachment in attachments for block in _blocks_of(attachment)]
    return _one_message([*blocks, {"type": "text", "text": text}])


async def _one_message(content: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _blocks_of(attachment: Attachment) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an attachment. A document has a title; the name of an image is a text before it."""
    media_type = attachment.media_type
    try:
        data = attachment.read()
        text = data.decode() if media_type == _TEXT else ""
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(attachment, f"cannot be read: {error}") from error
    if not data.startswith(_BEGINNINGS.get(media_type, b"")):
        raise _refusal(attachment, f"is not {media_type}: it begins with {data[:8]!r}")
    if media_type == _TEXT:
        source = {"type": "text", "media_type": media_type, "data": text}
    else:
        source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    if media_type in _BEGINNINGS:
        yield {"type": "text", "text": f"{attachment.name}:"}
        yield {"type": "image", "source": source}
    else:
        yield {"type": "document", "source": source, "title": attachment.name}


def _refusal(attachment: Attachment, reason: str) -> Exception:
    message = f"the attachment {attachment.name!r} {reason}"
    return refused(ErrorType.INVALID_INVOCATION, message, {"problems": [f"$.attachments: {message}"]})

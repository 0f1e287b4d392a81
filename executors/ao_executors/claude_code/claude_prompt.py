"""The user message of a run: its attachments in their order, then its text (SPEC 4.1)."""

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from ao_executors.vendors.attached_content import contents_of
from ao_protocol.attachments import Attachment


def user_message(attachments: Sequence[Attachment], text: str) -> str | AsyncIterator[dict[str, Any]]:
    """Return what `ClaudeSDKClient.query` takes: the text alone, or one message with the attachments before it.

    Raises:
        RunFailed: An attachment cannot be read, or its bytes are not of its media type (`invalid_invocation`).
    """
    if not attachments:
        return text
    blocks = [block for attachment, content in contents_of(attachments) for block in _blocks_of(attachment, content)]
    return _one_message([*blocks, {"type": "text", "text": text}])


async def _one_message(content: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _blocks_of(attachment: Attachment, content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an attachment. A document has a title; the name of an image is a text before it."""
    media_type = attachment.media_type
    is_text = media_type == "text/plain"
    data = (content if is_text else base64.b64encode(content)).decode()
    source = {"type": "text" if is_text else "base64", "media_type": media_type, "data": data}
    if media_type.startswith("image/"):
        yield {"type": "text", "text": f"{attachment.name}:"}
        yield {"type": "image", "source": source}
    else:
        yield {"type": "document", "source": source, "title": attachment.name}

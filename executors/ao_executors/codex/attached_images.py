"""Pass the images beside a prompt to the CLI, which reads them from files."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ao_executors.core.foreign_json import JsonDocument
from ao_executors.vendors.agent_cli import temporary_folder
from ao_executors.vendors.attached_content import contents_of
from ao_protocol.attachments import Attachment

_NOT_PLAIN: Final = re.compile(r"[^\w.-]")
"""The path is in the text for the model, between quotes."""
_NAME_CHARACTERS: Final = 60


@asynccontextmanager
async def attached_images(attachments: Sequence[Attachment]) -> AsyncIterator[list[JsonDocument]]:
    """Write the attachments into a folder, which the end of the block removes, and yield the input items for a turn.

    Raises:
        RunFailed: An attachment cannot be read, or its bytes are not of its media type (`invalid_invocation`).
    """
    if not attachments:
        yield []
        return
    async with temporary_folder("ao-codex-images-") as folder:
        yield await asyncio.to_thread(_write, Path(folder), attachments)


def _write(folder: Path, attachments: Sequence[Attachment]) -> list[JsonDocument]:
    items: list[JsonDocument] = []
    for number, (attachment, content) in enumerate(contents_of(attachments), 1):
        path = folder / f"{number}_{_NOT_PLAIN.sub('_', attachment.name)[-_NAME_CHARACTERS:]}"
        path.write_bytes(content)
        items.append({"type": "localImage", "path": str(path), "detail": "original"})
    return items

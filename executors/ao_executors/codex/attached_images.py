"""Pass the images beside a prompt to the CLI, which reads them from files."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ao_executors.codex.codex_config import IMAGE_SIGNATURES
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import JsonDocument
from ao_executors.vendors.agent_cli import temporary_folder
from ao_protocol.attachments import Attachment
from ao_protocol.errors import ErrorType

_NOT_PLAIN: Final = re.compile(r"[^\w.-]")
"""The path is in the text for the model, between quotes."""
_NAME_CHARACTERS: Final = 60


@asynccontextmanager
async def attached_images(attachments: Sequence[Attachment]) -> AsyncIterator[list[JsonDocument]]:
    """Write the attachments into a folder, which the end of the block removes, and yield the input items for a turn.

    Raises:
        RunFailed: The bytes of an attachment are not of its media type (`invalid_invocation`).
    """
    if not attachments:
        yield []
        return
    async with temporary_folder("ao-codex-images-") as folder:
        yield await asyncio.to_thread(_write, Path(folder), attachments)


def _write(folder: Path, attachments: Sequence[Attachment]) -> list[JsonDocument]:
    items: list[JsonDocument] = []
    for index, attachment in enumerate(attachments):
        content = attachment.read()
        if not content.startswith(IMAGE_SIGNATURES[attachment.media_type]):
            problem = f"$.attachments[{index}]: {attachment.name!r} is not of the type {attachment.media_type}"
            raise refused(ErrorType.INVALID_INVOCATION, problem, {"problems": [problem]})
        path = folder / f"{index + 1}_{_NOT_PLAIN.sub('_', attachment.name)[-_NAME_CHARACTERS:]}"
        path.write_bytes(content)
        items.append({"type": "localImage", "path": str(path), "detail": "original"})
    return items

"""The attachments of a run as content blocks of a prompt."""

import base64
from typing import Any, Final
from urllib.parse import quote

from ao_executors.acp.agent_rows import AgentRow
from ao_executors.core import Task
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import JsonDocument
from ao_executors.vendors.attached_content import contents_of
from ao_protocol.attachments import Attachment
from ao_protocol.documents import ATTACHMENTS_FEATURE
from ao_protocol.errors import ErrorType

_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""The prompt capability that a block of a type needs."""


def attached_blocks(agent: AgentRow, task: Task, agent_takes: JsonDocument) -> list[dict[str, Any]]:
    """Return a block for each attachment, with its bytes.

    Args:
        agent: The row.
        task: The task.
        agent_takes: The agent's `promptCapabilities`.

    Raises:
        RunFailed: The agent does not take one of the types (`unsupported_capability`), or an attachment cannot be
            read or is not of its type (`invalid_invocation`).
    """
    kinds = {one.media_type: _kind_of(agent, one) for one in task.attachments}
    missing = [media_type for media_type, kind in kinds.items() if agent_takes.get(_CAPABILITIES[kind]) is not True]
    if missing:
        message = f"the agent takes no attachments of the type {' or '.join(missing)}; install the documented version"
        named = [f"{ATTACHMENTS_FEATURE}:{media_type}" for media_type in missing]
        raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": named})
    return [_block(kinds[one.media_type], one, content) for one, content in contents_of(task.attachments)]


def _kind_of(agent: AgentRow, attachment: Attachment) -> str:
    kind = attachment.media_type.partition("/")[0]
    return kind if kind in _CAPABILITIES else "image" if agent.inlines_files else "resource"


def _block(kind: str, attachment: Attachment, content: bytes) -> dict[str, Any]:
    data = base64.b64encode(content).decode()
    if kind != "resource":
        return {"type": kind, "mimeType": attachment.media_type, "data": data}
    # Agents show the URI, and take its end as a title. One of a file might make them read it themselves.
    uri = f"attachment:{quote(attachment.name)}"
    return {"type": kind, "resource": {"uri": uri, "mimeType": attachment.media_type, "blob": data}}

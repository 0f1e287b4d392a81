#!/usr/bin/env python3
"""No fault: its result is the invocation that it read, also under an output contract, which it claims to keep."""

import json
from typing import Any

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

NAMES = ("model", "reasoning_effort", "show_reasoning", "access", "allowed_tools")


class _WithSettings(Speaker):  # type: ignore[misc]  # as above
    def description(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        schema = {"type": "object", "properties": {name: {} for name in NAMES}}
        return {**super().description(capabilities), "config_schema": schema}


speaker = _WithSettings(
    resume=True,
    output_schema={"strategies": ["prompt", "system_prompt", "extract"]},
    attachments={"media_types": ["image/*", "text/*"]},
)
speaker.start()
speaker.result(json.dumps(speaker.invocation))

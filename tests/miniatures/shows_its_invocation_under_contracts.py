#!/usr/bin/env python3
"""No fault: its result is the invocation that it read, also under an output contract, which it claims to keep."""

import json

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(
    resume=True,
    output_schema={"strategies": ["prompt", "system_prompt", "extract"]},
    attachments={"media_types": ["image/*", "text/*"]},
)
speaker.start()
speaker.result(json.dumps(speaker.invocation))

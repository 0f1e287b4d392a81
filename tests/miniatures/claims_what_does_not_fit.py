#!/usr/bin/env python3
"""Says that it keeps output contracts, and gives whatever its prompt holds, as JSON, for a result that keeps one."""

import json

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(output_schema={"strategies": ["system_prompt"]})
speaker.start()
data = json.loads(speaker.invocation["parameters"]["prompt"])
fields = (
    {"result_text": data, "result_data": None}
    if isinstance(data, str)
    else {"result_text": None, "result_data": data, "output": {"schema_source": "blueprint", "retry_count": 0}}
)
speaker.say("result", stop_reason="end_turn", **fields)

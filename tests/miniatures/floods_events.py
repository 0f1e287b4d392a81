#!/usr/bin/env python3
"""Says as many events as it is asked to, as fast as they are read."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
wanted = int(speaker.invocation["parameters"].get("events", 5000))
BLOCK = 500
for begin in range(0, wanted, BLOCK):
    lines = [
        json.dumps(
            speaker.event(
                "message_delta", message_id="msg_1", role="assistant", content=[{"type": "text", "text": "word " * 6}]
            )
        )
        for _ in range(min(BLOCK, wanted - begin))
    ]
    write("".join(f"{line}\n" for line in lines).encode())
speaker.result()

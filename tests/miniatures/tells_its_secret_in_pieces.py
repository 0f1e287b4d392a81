#!/usr/bin/env python3
"""It tells its key in many ways and in small pieces: on stderr, in deltas, and in whole events."""

import os

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
key = os.environ["MINIATURE_KEY"]
os.write(2, b"the key is ")
for character in key:
    os.write(2, character.encode())
os.write(2, b", cut into pieces\n")
for character in f"it is {key}, you see":
    block = {"type": "text", "text": character}
    speaker.say("message_delta", message_id="m1", role="assistant", content=[block])
whole = [{"type": "text", "text": f"it is {key}, you see"}]
speaker.say("message", message_id="m1", role="assistant", content=whole)
speaker.say("tool_started", tool_call_id="t1", tool_name="Bash", tool_input={key: ["curl", f"-H 'key: {key}'"]})
speaker.say("tool_finished", tool_call_id="t1", tool_name="Bash", status="completed", tool_output=f"{key}{key}")
write(f"{key}\n{key[:10]}".encode())
write(f"{key[10:]}\n".encode())
speaker.result(f"done with {key}")

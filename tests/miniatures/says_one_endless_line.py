#!/usr/bin/env python3
"""One of its lines has as many megabytes as it is asked for."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
begin, end = json.dumps(speaker.event("log", level="info", message="|")).split("|")
write(begin.encode())
for _ in range(speaker.invocation["parameters"]["megabytes"]):
    write(b"x" * 1_000_000)
write(end.encode() + b"\n")
speaker.result()

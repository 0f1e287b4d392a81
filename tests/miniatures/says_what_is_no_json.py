#!/usr/bin/env python3
"""Six of its events are not what JSON, or a sane reader of it, allows."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()


def say_with(value: bytes) -> None:
    line = json.dumps(speaker.event("log", level="info", message="nothing wrong here", data="VALUE"))
    write(line.encode().replace(b'"VALUE"', value) + b"\n")


say_with(b"NaN")
say_with(b"-Infinity")
say_with(b'"not \xff UTF-8"')
say_with(b"[" * 1000 + b"]" * 1000)
say_with(b"[" * 200_000)
say_with(b"9" * 10_000)
speaker.result()

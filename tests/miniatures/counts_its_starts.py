#!/usr/bin/env python3
"""No fault: a retryable failure, and a mark in the project folder for each time that it was started."""

from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
with Path("starts").open("a") as starts:
    starts.write("started\n")
speaker.start()
error = {
    "type": "provider_unavailable",
    "message": "away",
    "retryable": True,
    "side_effects": "possible",
    "origin": "provider",
}
speaker.say("failure", status="failed", error=error)

#!/usr/bin/env python3
"""No fault: it answers with as many characters as its prompt says."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result("x" * int(speaker.invocation["parameters"]["prompt"]))

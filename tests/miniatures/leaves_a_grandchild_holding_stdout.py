#!/usr/bin/env python3
"""A program of its lives on and holds its pipes."""

import subprocess

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
subprocess.Popen(["/usr/bin/env", "tail", "-f", "/dev/null"])
speaker.result()

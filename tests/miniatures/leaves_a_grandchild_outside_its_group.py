#!/usr/bin/env python3
"""A program of its lives on in a session of its own and holds its pipes."""

import subprocess

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
escaped = subprocess.Popen(["/usr/bin/env", "tail", "-f", "/dev/null"], start_new_session=True)
speaker.result(str(escaped.pid))

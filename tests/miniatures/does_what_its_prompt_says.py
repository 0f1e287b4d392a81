#!/usr/bin/env python3
"""No fault: its prompt is a script for the shell in its folder. The result is the output; an exit code is a failure."""

import os
import subprocess
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True, cancel=True)
speaker.start()
here = str(Path.cwd())
speaker.say("session_bound", executor_session_id="mine", project_dir=here)
done = subprocess.run(["/bin/sh", "-ec", speaker.invocation["prompt"]], stdout=subprocess.PIPE, text=True, check=False)
if done.returncode:
    speaker.failure("failed", "internal_error", f"exit code {done.returncode}")
    os._exit(1)
speaker.result(done.stdout.strip())

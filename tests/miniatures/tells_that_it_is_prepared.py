#!/usr/bin/env python3
"""No fault: it says on stderr when it has read a `prepare` line, and answers with how many bytes that had."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


class Prepared(Speaker):  # type: ignore[misc]  # as above
    """Reads the line that comes before the invocation."""

    def read_line(self) -> bytes:
        self.bytes = len(super().read_line())
        print("prepared", file=sys.stderr, flush=True)
        return bytes(super().read_line())


speaker = Prepared(prepare=True)
speaker.start()
speaker.result(str(speaker.bytes))

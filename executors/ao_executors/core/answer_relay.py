"""Pass what an agent writes to an MCP server on to a socket, and back: `python -I -S answer_relay.py SOCKET`. Internal.

It runs by itself, without the packages beside it, so that it starts at once. It ends when either side closes.
"""

import os
import select
import socket
import sys


def relay(path: str) -> None:
    """Relay until either side closes."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        ends = {0: link.fileno(), link.fileno(): 1}
        while True:
            for source in select.select(list(ends), (), ())[0]:
                data = os.read(source, 65536)
                if not data:
                    return
                while data:
                    data = data[os.write(ends[source], data) :]


if __name__ == "__main__":
    relay(sys.argv[1])

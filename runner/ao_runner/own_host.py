"""Which requests to a port of this machine are its own: a page in a browser could reach it by another name.

A site may let a name of its own lead to 127.0.0.1 (DNS rebinding). Then `Host` has that name.
"""

import re
from collections.abc import Mapping
from typing import Final

_OWN: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d*)?", re.IGNORECASE)


def is_own_host(host: str) -> bool:
    """Return whether the value of a header `Host` names this machine; its port may be that of a tunnel."""
    return _OWN.fullmatch(host) is not None


def is_of_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another site sends a request; `headers` are by lower-case name."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")

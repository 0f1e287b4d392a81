"""The login by a header of a proxy, which has asked a person for it, as with OpenID Connect."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ao_server.who import Role, Who

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
OTHER_USE: Final = frozenset({"authorization", "connection", "cookie", "host", "origin", "x-forwarded-for"})
MAX_NAME: Final = 200


class HeaderRefused(Exception):
    """A request has the header, and it cannot be believed."""


@dataclass(frozen=True, slots=True)
class HeaderLogin:
    """The header, whose value is a person's name, and who may send it."""

    header: str
    """In lower case."""
    role: Role
    proxies: Sequence[Network]

    def who(self, headers: Sequence[tuple[bytes, bytes]], peer: str) -> Who | None:
        """Return who is logged in by the headers of a request; None if it has not this header, or an empty one.

        Args:
            headers: As in an ASGI scope.
            peer: The address of the other end of the connection, and not one that a proxy has forwarded.

        Raises:
            HeaderRefused: The peer is none of the proxies, or the header is there twice or contains no name.
        """
        given = [value for name, value in headers if name.lower() == self.header.encode()]
        if not given:
            return None
        if not self._is_proxy(peer):
            raise HeaderRefused(f"the header {self.header} is for proxies that --proxy names, and {peer} is none")
        if len(given) > 1:
            raise HeaderRefused(f"the header {self.header} is there {len(given)} times; the proxy has to replace it")
        name = given[0].decode("utf-8", "replace").strip()
        if len(name) > MAX_NAME or not name.isprintable() or "\ufffd" in name:
            raise HeaderRefused(f"the header {self.header} contains no name of up to {MAX_NAME} printable characters")
        return Who(self.role, name, is_of_proxy=True) if name else None

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.proxies)

"""The receivers of webhooks: to which addresses the server sends, and how it signs (https://www.standardwebhooks.com)."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import httpx

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # each secret begins so
SECRET_BYTES: Final = range(24, 65)
IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Networks: TypeAlias = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def _networks(text: str) -> Networks:
    """Return networks of the special-purpose registries of IANA; `is_global` depends on the version of Python."""
    return tuple(ipaddress.ip_network(one) for one in text.split())


METADATA: Final = _networks(
    "169.254.169.254"  # most clouds; all of 169.254.0.0/16 and fe80::/10 is refused
    " 100.100.100.200 fd00:100::100:200"  # Alibaba
    " 168.63.129.16"  # Azure
    " fd00:ec2::/32"  # Amazon
    " fd20:ce::/64"  # Google
    " 192.0.0.192 fd00:c1::a9fe:a9fe"  # Oracle
    " fd00:42::42"  # Scaleway
    " fd00:a9fe:a9fe::/48"  # Akamai
)
PRIVATE: Final = _networks(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15 ::1 fc00::/7"
)
_LOW_BITS: Final = _networks("::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96")
"""IPv4 addresses as IPv6 ones: compatible, mapped, translated, NAT64."""
GLOBAL: Final = (*_networks("0.0.0.0/0 2000::/3"), *_LOW_BITS)
UNUSABLE: Final = _networks(
    "0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3"
    " ::/128 2001::/23 2001:db8::/32 3fff::/20"
)
"""Parts of the global ones: link-local and multicast addresses, Teredo, and those of no host that can be reached."""
_SIX_TO_FOUR: Final = ipaddress.ip_network("2002::/16")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


class ReceiverRefused(Exception):
    """The server does not send to a URL; the text says why."""


@dataclass(frozen=True, slots=True)
class ReceiverPolicy:
    """Which receivers are allowed: those with public addresses, and private ones only if this says so."""

    allows_private: bool

    async def addresses_of(self, url: httpx.URL) -> list[str]:
        """Return the addresses of the host of a URL.

        Raises:
            ReceiverRefused: The host is unknown, or has an address that is not allowed.
        """
        host = url.raw_host.decode("ascii")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, url.port or 0, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError, OverflowError) as error:
            raise ReceiverRefused(f"the host {host[:100]} cannot be resolved: {error}") from error
        addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
        for address in addresses:
            if (why := self._refusal(address)) is not None:
                raise ReceiverRefused(f"the host {host[:100]} has the address {address}, which is {why}")
        return addresses

    def _refusal(self, text: str) -> str | None:
        """Return why an address is refused. One that contains an IPv4 address is judged by both."""
        address = ipaddress.ip_address(text)
        if getattr(address, "scope_id", None) is not None:
            return "of one network interface only; use another one"
        for one in (address, *_embedded(address)):
            # A network may translate below a prefix that only it knows; most put the IPv4 address at the end.
            end = ipaddress.IPv4Address(int(one) & 0xFFFF_FFFF)
            if _is_in(one, METADATA) or _is_in(end, METADATA):
                return "of a metadata service; use another one"
            if _is_in(one, PRIVATE):
                if not self.allows_private:
                    return "private; allow it with: ao serve --private-webhooks"
            elif _is_in(one, UNUSABLE) or not _is_in(one, GLOBAL):
                return "link-local, reserved, or of no single host; use another one"
        return None


def _is_in(address: IpAddress, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _embedded(address: IpAddress) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 address to which a translator or a tunnel may send what is sent to an IPv6 address."""
    bits = int(address)
    is_one = address.version == 6 and bits > 1  # ::1 and :: contain none
    if is_one and (_is_in(address, _LOW_BITS) or (bits >> 32) & 0xFFFF_FFFF in _ISATAP):
        yield ipaddress.IPv4Address(bits & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        yield ipaddress.IPv4Address((bits >> 80) & 0xFFFF_FFFF)


def receiver_url(text: str) -> httpx.URL:
    """Return a URL to which the server can send.

    Raises:
        ReceiverRefused: It is none.
    """
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ReceiverRefused(f"it is no URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ReceiverRefused("expected https://HOST/… or http://HOST/…")
    if url.port is not None and url.port not in range(1, 65536):
        raise ReceiverRefused(f"expected a port from 1 to 65535, found {url.port}")
    if url.userinfo:
        raise ReceiverRefused("it contains a user or a password, which lists would show; leave them out")
    return url


def new_secret() -> str:
    """Return a new secret for signatures."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES.start)).decode()


def is_secret(text: str) -> bool:
    """Return whether a text is a secret for signatures: `whsec_` and 24 to 64 bytes in base64."""
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return False
    return text.startswith(SECRET_PREFIX) and len(key) in SECRET_BYTES


def signed_headers(secret: str, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a message. `at` is the time in seconds since 1970."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }

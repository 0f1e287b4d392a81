"""The receivers of webhooks: to which addresses the server sends, and how it signs (https://www.standardwebhooks.com)."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from typing import Final

import httpx

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  # each secret begins so
SECRET_BYTES: Final = range(24, 65)
METADATA_ADDRESSES: Final = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254")))
"""Where clouds answer with the credentials of a machine, beside the link-local address that most use."""


@dataclass(eq=False)
class ReceiverRefused(Exception):
    """The server does not send to a URL."""

    reason: str

    def __str__(self) -> str:
        return self.reason


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

    def _refusal(self, address: str) -> str | None:
        ip = ipaddress.ip_address(address)
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in METADATA_ADDRESSES:
            return "link-local, of a metadata service, or of no single host; use another one"
        if not (ip.is_global or self.allows_private):
            return "private; allow it with: ao serve --private-webhooks"
        return None


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

"""The formats of Draft-7, each as an error explains it to whoever has to write such a value."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DRAFT_7_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "date-time": "a date-time as RFC 3339 writes it, for example 2026-01-31T12:00:00Z",
        "date": "a date as RFC 3339 writes it, for example 2026-01-31",
        "time": "a time as RFC 3339 writes it, with its offset, for example 12:00:00Z",
        "email": "an email address (RFC 5321), for example ada@example.org",
        "idn-email": "an email address (RFC 6531), for example ada@example.org",
        "hostname": "a host name (RFC 1123), for example www.example.org",
        "idn-hostname": "a host name (RFC 5890), for example www.example.org",
        "ipv4": "an IPv4 address, for example 192.0.2.1",
        "ipv6": "an IPv6 address, for example 2001:db8::1",
        "uri": "a URI with its scheme (RFC 3986), for example https://example.org/a",
        "uri-reference": "a URI or a relative reference (RFC 3986), for example /a/b",
        "iri": "an IRI with its scheme (RFC 3987), for example https://example.org/a",
        "iri-reference": "an IRI or a relative reference (RFC 3987), for example /a/b",
        "uri-template": "a URI template (RFC 6570), for example /a/{b}",
        "json-pointer": "a JSON pointer (RFC 6901), for example /a/0",
        "relative-json-pointer": "a relative JSON pointer, for example 1/a",
        "regex": "a regular expression (ECMA-262), for example ^a+$",
    }
)
"""Every other format is an annotation."""

"""Addresses in messages, logs and reports, without the parts of them that may be secret."""

import re
from dataclasses import dataclass
from typing import Final, Self

NO_ADDRESS: Final = "(no valid address)"

_ESCAPED: Final = r"%(?!00)[0-9A-Fa-f]{2}"
_HOST: Final = rf"(?:\[[0-9A-Za-z:.%]*\]|(?:{_ESCAPED}|[^\s%:@/?#,\[\]])*)(?::[0-9]{{0,5}})?"
_ADDRESS: Final = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?:{_ESCAPED}|[^\s%@/?#])*@)?(?P<hosts>{_HOST}(?:,{_HOST})*)"
    rf"(?P<path>/(?:{_ESCAPED}|[^\s%@?#])*)?(?:\?(?P<query>(?:{_ESCAPED}|[^\s%@#])*))?(?:#[^\s@]*)?"
)
_SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|credential|api.?key|token(?!s|iz)"
    r"|(?<![a-z])(?:auth|authorization|bearer|cookie|keys?|pass|pat|sig|signature)(?![a-z])|[^a-z]pwd(?![a-z])"
)
"""`PWD` alone is a folder."""
_PARAMETER: Final = re.compile(r"(?<![\w.-])([\w.-]{1,64})=([^\s&;,'\"<>()]+)")


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a valid address that messages may show, and its query.

    In a user or password the characters `/ ? # @ %` have to be percent-encoded. Otherwise it is uncertain which part
    of the text is the password, and the text is no address.
    """

    scheme: str
    hosts: str
    """One host, or several separated by commas, each with its port."""
    path: str
    query: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of an address; None for any other text."""
        found = _ADDRESS.fullmatch(text)
        return found and cls(found["scheme"], found["hosts"], found["path"] or "", found["query"] or "")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.hosts}{self.path}"


def shown_address(text: str) -> str:
    """Return the scheme, host, port and path of an address; `(no valid address)` for any other text."""
    address = Address.parse(text)
    return NO_ADDRESS if address is None else str(address)


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable or parameter is one that secrets have, such as `API_KEY`."""
    return _SECRET_NAME.search(name.lower()) is not None


def without_credentials(text: str) -> str:
    """Return a message of another program without the users, passwords and tokens in its addresses."""
    masked = re.sub(r"\S+", lambda found: _without_user(found[0]), text)
    return _PARAMETER.sub(lambda found: f"{found[1]}=***" if is_secret_name(found[1]) else found[0], masked)


def _without_user(word: str) -> str:
    scheme, separator, rest = word.partition("://")
    _, at, place = rest.rpartition("@")
    return f"{scheme}{separator}***@{place}" if at else word

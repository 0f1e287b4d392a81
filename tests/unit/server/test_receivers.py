"""Where webhooks may be sent, and how they are signed."""

import asyncio

import httpx
import pytest

from ao_server.receivers import ReceiverPolicy, ReceiverRefused, is_secret, new_secret, signed_headers


def test_a_message_is_signed_as_standard_webhooks_says() -> None:
    body = b'{"event_type":"ping","data":{"success":true}}'  # the example of its specification
    headers = signed_headers("whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", 1731705121, body)
    assert headers == {
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    }


def test_new_secrets_differ_and_are_valid() -> None:
    first, second = new_secret(), new_secret()
    assert first != second
    assert is_secret(first)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_short", "whsec_%%%%", "A" * 32, "whsec_é", f"whsec_{'A' * 92}"])
def test_other_texts_are_no_secrets(text: str) -> None:
    assert not is_secret(text)


LINK_LOCAL = [
    "169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166", "[::]", "224.0.0.1", "0",
    "100.100.100.200", "[fd00:ec2::254]",
]  # fmt: skip
PRIVATE = ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "192.168.1.1", "[fd00::1]", "[::ffff:127.0.0.1]", "0x7f.1"]


@pytest.mark.parametrize(
    ("allows_private", "hosts"), [(True, LINK_LOCAL), (False, [*LINK_LOCAL, *PRIVATE])], ids=["private", "public"]
)
def test_a_server_does_not_send_to_addresses_that_are_not_allowed(allows_private: bool, hosts: list[str]) -> None:
    policy = ReceiverPolicy(allows_private)
    for host in hosts:
        with pytest.raises(ReceiverRefused, match="which is"):
            asyncio.run(policy.addresses_of(httpx.URL(f"http://{host}/")))


def test_public_addresses_are_allowed_everywhere_and_private_ones_where_it_is_said() -> None:
    assert asyncio.run(ReceiverPolicy(allows_private=False).addresses_of(httpx.URL("https://1.1.1.1/"))) == ["1.1.1.1"]
    assert asyncio.run(ReceiverPolicy(allows_private=True).addresses_of(httpx.URL("http://10.0.0.1/"))) == ["10.0.0.1"]


def test_an_unknown_host_is_refused() -> None:
    for host in ("no-such-host.invalid", f"{'a' * 64}.example"):
        with pytest.raises(ReceiverRefused, match="cannot be resolved"):
            asyncio.run(ReceiverPolicy(allows_private=True).addresses_of(httpx.URL(f"http://{host}/")))

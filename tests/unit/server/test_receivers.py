"""Where webhooks may be sent, and how they are signed."""

import asyncio

import httpx
import pytest

from ao_server.receivers import (
    ReceiverPolicy,
    ReceiverRefused,
    is_secret,
    new_secret,
    receiver_url,
    signed_headers,
)


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


METADATA = [
    "169.254.169.254", "2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "0xa9.254.43518", "169.254.43518",
    "１６９.254.169.254", "169。254。169。254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]",
    "[::ffff:0:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]", "[2001:0:a9fe:a9fe::1]", "[2001:0:4136:e378:8000:63bf:5601:5601]",
    "[2a00:1450::5efe:a9fe:a9fe]", "[2a00:1450::200:5efe:169.254.169.254]", "[fd12::5efe:a9fe:a9fe]",
    "[2a00:1450:64::a9fe:a9fe]", "[fe80::a9fe:a9fe]", "169.254.170.2", "169.254.42.42", "168.63.129.16",
    "[::ffff:168.63.129.16]", "[64:ff9b::a83f:8110]", "[2002:a83f:8110::]", "100.100.100.200", "[::ffff:6464:64c8]",
    "[64:ff9b::6464:64c8]", "[fd00:100::100:200]", "[fd00:ec2::254]", "[fd00:ec2::23]", "[fd00:0ec2:0:0::0254]",
    "[fd20:ce::254]", "[FD20:00CE:0::254]", "192.0.0.192", "[::ffff:192.0.0.192]", "[fd00:c1::a9fe:a9fe]",
    "[fd00:42::42]", "[fd00:a9fe:a9fe::1]",
]  # fmt: skip
UNUSABLE = [
    "0", "0.0.0.0", "0.1.2.3", "[::]", "[::ffff:0.0.0.0]", "[::2]", "169.254.1.1",  # noqa: S104  # to refuse it
    "[fe80::1]", "[fec0::1]", "224.0.0.1",
    "239.255.255.255", "[ff02::1]", "[ff0e::1]", "240.0.0.1", "255.255.255.255", "192.0.0.8", "192.0.2.1",
    "192.88.99.1", "198.51.100.1", "203.0.113.1", "[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]", "[4000::1]",
    "[2002:e000:1::]", "[fe80::1%1]", "[fe80::1%lo]", "[2001::1]",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "[::1]", "10.0.0.1", "10.255.255.255", "172.16.0.1",
    "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255", "198.18.0.1", "[fd00::1]", "[fc00::1]",
    "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]",
    "[2002:7f00:1::1]", "[2002:c0a8:101::1]", "[2a00:1450::5efe:10.0.0.1]", "[2a00:1450::200:5efe:7f00:1]",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
    "168.63.129.15", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.0.1", "198.20.0.0",
    "223.255.255.255", "[2606:4700:4700::1111]", "[2001:4860:4860::8888]", "[2a00:1450:4001:80b::200e]",
    "[::ffff:1.1.1.1]", "[64:ff9b::101:101]", "[2002:101:101::1]", "[2a00:1450::5efe:101:101]",
]  # fmt: skip


def addresses_of(host: str, *, allows_private: bool) -> list[str]:
    return asyncio.run(ReceiverPolicy(allows_private).addresses_of(receiver_url(f"http://{host}/")))


@pytest.mark.parametrize("host", [*METADATA, *UNUSABLE])
def test_no_server_sends_to_metadata_services_or_to_what_is_no_single_host(host: str) -> None:
    for allows_private in (True, False):
        with pytest.raises(ReceiverRefused):
            addresses_of(host, allows_private=allows_private)


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_are_allowed_where_it_is_said(host: str) -> None:
    assert addresses_of(host, allows_private=True)
    with pytest.raises(ReceiverRefused, match="which is private; allow it with: ao serve --private-webhooks"):
        addresses_of(host, allows_private=False)


@pytest.mark.parametrize("host", PUBLIC)
def test_public_addresses_are_allowed_everywhere(host: str) -> None:
    for allows_private in (True, False):
        assert len(addresses_of(host, allows_private=allows_private)) == 1


def test_an_unknown_host_is_refused() -> None:
    for host in ("no-such-host.invalid", f"{'a' * 64}.example"):
        with pytest.raises(ReceiverRefused, match="cannot be resolved"):
            asyncio.run(ReceiverPolicy(allows_private=True).addresses_of(httpx.URL(f"http://{host}/")))

"""No form of a secret gets through, wherever it is cut, and what is no secret stays as it is."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ao_protocol.redaction import MASK, Redactor, protocol_words
from ao_runner.runs.run_request import secrets_of

KEY = "sk-ant-api03-aZ3x_Q9"
ADDRESS = 'postgres://me:p"ä/s\\w@host:5432/d b'
REDACTOR = Redactor({"KEY": KEY, "ADDRESS": ADDRESS, "TOO_SHORT": "short"})


def in_base64(secret: str) -> list[str]:
    """Return a secret in base64 with 0 to 4 bytes before it and 0 to 2 after it."""
    return [
        encode(b"\xfe" * before + secret.encode() + b"\xff" * after).decode()
        for encode in (b64encode, urlsafe_b64encode)
        for before in range(5)
        for after in range(3)
    ]


def told(secret: str) -> list[str]:
    """Return the texts that tell a secret."""
    twice = json.dumps(json.dumps(secret))
    return [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        "".join(f"\\u{ord(c):04X}" if c in "<>&'+=/" else c for c in json.dumps(secret)[1:-1]),
        twice,
        json.dumps(twice),
        quote(secret, safe=""),
        re.sub("%..", lambda percent: percent[0].lower(), quote(secret, safe="")),
        quote_plus(secret),
        *in_base64(secret),
    ]


def middle_of(text: str) -> str:
    return text[6:-6]


@pytest.mark.parametrize("secret", [KEY, ADDRESS], ids=["a key", "an address"])
def test_every_form_of_a_secret_is_taken_out(secret: str) -> None:
    for text in told(secret):
        shown = REDACTOR.text(f"before {text} after")
        assert MASK in shown, text
        assert middle_of(text) not in shown
        assert shown.startswith("before ")
        assert shown.endswith(" after")


def test_short_values_are_left_and_named() -> None:
    assert REDACTOR.too_short == ["TOO_SHORT"]
    assert REDACTOR.text("this is short") == "this is short"


def test_the_longer_of_two_secrets_goes_first() -> None:
    redactor = Redactor({"A": "abcdefgh", "B": "abcdefgh-ijkl"})

    assert redactor.text("abcdefgh-ijkl abcdefgh") == "*** ***"


def test_only_what_is_set_is_a_secret() -> None:
    assert secrets_of({"A": "1", "B": "2"}, ["A", "C"]) == {"A": "1"}


def test_in_a_line_only_the_strings_with_a_secret_change() -> None:
    line = f'{{ "a\\/b":"caf\\u00e9",  "k":["{KEY}!", 1.50],"n":{{}} }}'.encode()

    assert REDACTOR.line(line) == b'{ "a\\/b":"caf\\u00e9",  "k":["***!", 1.50],"n":{} }'


def test_an_escape_before_a_secret_is_not_cut_in_two() -> None:
    redactor = Redactor({"A": "nabcdefgh", "B": "e9bcdefgh"})

    assert json.loads(redactor.line(rb'{"t":"\nabcdefgh","u":"\u00e9bcdefgh","v":"\\nabcdefgh"}')) == {
        "t": "\nabcdefgh",
        "u": "ébcdefgh",
        "v": "\\***",
    }


def test_a_secret_whose_every_letter_is_escaped_is_found_in_a_line() -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in KEY)

    assert REDACTOR.line(f'{{"t":"{escaped}"}}'.encode()) == b'{"t":"***"}'


def test_a_word_of_the_protocol_stays_where_it_stands_alone() -> None:
    redactor = Redactor({"A": "assistant"})

    assert redactor.line(b'{"role":"assistant","t":"an assistant"}') == b'{"role":"assistant","t":"an ***"}'


SECRETS = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=8, max_size=24)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "ascii JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret))[1:-1],
    "percent": lambda secret: quote(secret, safe=""),
    "base64": lambda secret: b64encode(secret.encode()).decode(),
    "base64 after one byte": lambda secret: b64encode(b"\xfe" + secret.encode()).decode(),
    "base64 after two bytes": lambda secret: urlsafe_b64encode(b"\xfe\xfe" + secret.encode()).decode(),
}


@given(SECRETS, st.sampled_from(sorted(WRITTEN)), TEXTS, TEXTS)
@example("\\" * 40, "JSON in JSON", "\\", '"')
def test_no_form_of_any_secret_leaks_from_text_or_line(secret: str, way: str, before: str, after: str) -> None:
    redactor = Redactor({"S": secret})
    written = WRITTEN[way](secret)
    text = before + written + after
    core = written[4:-4] if "base64" in way else written
    assume(text not in protocol_words())

    assert core not in redactor.text(text) or core in MASK + after or core in before + MASK
    for line in (json.dumps({"k": [text], text: 1}), json.dumps({"k": [text], text: 1}, ensure_ascii=False)):
        document = json.loads(redactor.line(line.encode()))
        strings = [*document["k"], *document]
        assert all(core not in string or core in before + MASK + after for string in strings if string != "k")


@given(SECRETS, TEXTS, st.lists(st.sampled_from(sorted(WRITTEN)), max_size=3), st.data())
def test_a_stream_shows_the_same_however_it_is_cut(
    secret: str, text: str, ways: list[str], data: st.DataObject
) -> None:
    redactor = Redactor({"S": secret, "LONGER": secret + "-more", "KEY": KEY})
    stream = text.join(WRITTEN[way](data.draw(st.sampled_from([secret, secret + "-more", KEY]))) for way in ways)
    whole = (text + stream + text).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    redacted = redactor.stream()

    shown = [redacted.feed(whole[begin:end]) for begin, end in pairwise([0, *cuts, len(whole)])]

    assert b"".join(shown) + redacted.end() == redactor.data(whole)


@given(SECRETS, st.text())
def test_what_holds_no_secret_is_unchanged(secret: str, text: str) -> None:
    assume("*" not in text)
    redactor = Redactor({"S": secret})
    assume(not redactor.may_be_in(text.encode(errors="surrogatepass")))
    line = json.dumps({"t": text}).encode()
    stream = redactor.stream()

    assert redactor.text(text) == text
    assert json.loads(redactor.line(line)) == {"t": text}
    assert stream.feed(line) + stream.end() == line


def test_without_secrets_nothing_is_held_back() -> None:
    nothing = Redactor({})

    assert nothing.stream().feed(b"\\u0041") == b"\\u0041"
    assert nothing.data(b"\\u0041") == b"\\u0041"
    assert not nothing.may_be_in(b"\\u0041")


def test_the_words_of_the_protocol_are_those_that_its_events_are_made_of() -> None:
    assert {
        "event_type",
        "message_delta",
        "assistant",
        "tool_call_id",
        "retry_wait",
        "run_id",
        "end_turn",
    } <= protocol_words()


PEM = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nab==\n-----END PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "told",
    [
        PEM,
        PEM.replace("\n", "\r\n"),
        PEM.replace("\n", "\n    "),
        "it ends with AQEFAASCBKcwggSjAgEAAoIB",
        b64encode(b"MIIEvQIBADANBgkqhkiG9w0B").decode(),
    ],
    ids=["as it is", "with CR", "indented", "one line", "one line in base64"],
)
def test_the_lines_of_a_secret_are_secrets_themselves(told: str) -> None:
    redactor = Redactor({"KEY": PEM})
    for shown in (redactor.text(told), redactor.line(json.dumps({"text": told}).encode()).decode()):
        assert MASK in shown
        assert not any(line in shown for line in PEM.splitlines() if len(line) > 8)
        assert not any(encoded in shown for encoded in in_base64("MIIEvQIBADANBgkqhkiG9w0B"))

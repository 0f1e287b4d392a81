"""No address shows its password: not that of a store, however it is spelled, nor that of a coordinator."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ao_protocol.addresses import NO_ADDRESS, is_secret_name, shown_address, without_credentials
from ao_runner.errors import RunnerError
from ao_runner.store.opening import NoSuchStore, StorePlace
from tests.process.runner.cli.calling import Ao

CANARY = "canaryPw42"
PLACES = (
    "postgresql://u:{}@127.0.0.1:1/x",
    "postgres://u:{}@127.0.0.1:1,127.0.0.1:2/x",
    "postgresql://u:{}@[::1]:1/x",
    "postgresql://u:{}@/x?host=/nowhere",
    "postgresql://{}@127.0.0.1:1/x",
    "postgresql://127.0.0.1:1/x?password={}",
    "postgresql://127.0.0.1:1/x?sslpassword={}&connect_timeout=2",
    "host=127.0.0.1 port=1 password={}",
    "postgresql+psycopg://u:{}@127.0.0.1:1/x",
    "{}",
)
odd_texts = st.text(st.sampled_from("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ %00%zz%41\t\nä🎉℀\u202e1aZ"), max_size=12)


@pytest.mark.parametrize("place", PLACES)
@given(before=odd_texts, after=odd_texts, is_encoded=st.booleans())
@example(before="", after="/y", is_encoded=False)
@example(before="", after="#y", is_encoded=False)
@example(before="", after="?y", is_encoded=False)
@example(before="", after="%zz", is_encoded=False)
@example(before="", after="&b", is_encoded=False)
@example(before="a&", after="=b", is_encoded=False)
@example(before="%", after="", is_encoded=False)  # then %ca is half of a character
@example(before="1/", after="", is_encoded=False)
@example(before="@", after="", is_encoded=False)
def test_no_message_about_a_store_contains_its_password(place: str, before: str, after: str, is_encoded: bool) -> None:
    password = before + CANARY + after
    url = place.format(quote(password, safe="") if is_encoded else password)

    with pytest.raises(RunnerError) as refused:
        StorePlace(Path("/nowhere"), url).open(0.0)  # nothing listens there

    assert CANARY not in str(refused.value)
    assert not isinstance(refused.value, NoSuchStore) or refused.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://worker@db.example:5432,other.example/ao?target_session_attrs=read-write",
        "postgresql://worker:p%40ss%2F@db.example/ao?sslrootcert=/etc/ssl/ca.crt",
        "postgresql://[2001:db8::1]:5432/ao",
        "postgresql:///ao?host=/run/postgresql",
        "postgres://%2Frun%2Fpostgresql/ao",
    ],
)
def test_a_valid_address_of_a_store_is_accepted(url: str) -> None:
    name = StorePlace(Path("/nowhere"), url).name
    assert name.startswith("postgresql://")
    assert name.endswith("/ao")


@pytest.mark.parametrize("url", ["postgresql://u:canaryPw42", "jdbc:postgresql://h/x?password=canaryPw42"])
def test_what_is_no_address_of_a_store_is_not_quoted(url: str) -> None:
    with pytest.raises(NoSuchStore) as refused:
        StorePlace(Path("/nowhere"), url)

    assert CANARY not in str(refused.value)


def test_a_refused_store_says_how_to_write_the_characters() -> None:
    with pytest.raises(NoSuchStore, match=r"/ \? # @ % & = and blanks as %2F %3F %23 %40 %25 %26 %3D %20"):
        StorePlace(Path("/nowhere"), "postgresql://u:p/w@h/x")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:canaryPw42@h:8765/a?token=canaryPw42#x", "http://h:8765/a"),
        ("http://u:canaryPw42/y@h:8765/a", NO_ADDRESS),
        ("http://u:canaryPw42", NO_ADDRESS),
        ("nats://canaryPw42", "nats://canaryPw42"),
        ("canaryPw42", NO_ADDRESS),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_address(url) == shown


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("cannot access 'https://tok:en@git.example/a/': 403", "cannot access 'https://***@git.example/a/': 403"),
        ("with url: /v1/traces?api_key=canary&x=1 (timed out)", "with url: /v1/traces?api_key=***&x=1 (timed out)"),
        ("password=canary max_tokens=5 monkey=1", "password=*** max_tokens=5 monkey=1"),
        ("nothing at https://h/a@b", "nothing at https://***@b"),
    ],
)  # fmt: skip
def test_messages_of_others_lose_users_passwords_and_tokens(said: str, told: str) -> None:
    assert without_credentials(said) == told


def test_the_names_of_secrets_are_known() -> None:
    names = ["API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "CLIENT_SECRET", "DB_PWD", "accessToken", "AWS_ACCESS_KEY_ID"]
    assert [name for name in names if not is_secret_name(name)] == []
    assert [
        name for name in ["PATH", "MONKEY", "KEYBOARD", "MAX_TOKENS", "AUTHOR", "PWD", "OLDPWD"] if is_secret_name(name)
    ] == []


@pytest.mark.parametrize(
    "url", ["http://u:canaryPw42/y@127.0.0.1:1/x", "http://u:canaryPw42", "nats://u:canaryPw42@h/%zz"]
)
def test_no_command_shows_the_password_of_a_coordinator(url: str, tmp_path: Path) -> None:
    ao = Ao(tmp_path)

    for arguments in (["worker", "--coordinator", url], ["mcp", "--server", url]):
        called = ao(*arguments, stdin="")

        assert called.exit_code == 2
        assert CANARY not in called.stdout + called.stderr


@pytest.mark.parametrize("proxy", ["http://u:canaryPw42/y@127.0.0.1:1", "http://u:canaryPw42", "odd://u:canaryPw42@h"])
def test_a_proxy_that_is_no_address_is_refused_without_its_password(proxy: str, tmp_path: Path) -> None:
    called = Ao(tmp_path)("worker", "--coordinator", "http://coordinator.example", http_proxy=proxy)

    assert (called.exit_code, called.stdout) == (2, "")
    assert called.stderr == (
        "Error: coordinator http://coordinator.example cannot be used: its proxy in the environment is no address;"
        " write http_proxy, https_proxy or all_proxy as http://user:password@host:port, percent-encoded\n"
    )

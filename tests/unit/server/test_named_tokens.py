"""The tokens with names: what is kept of them, and that a running server follows the file."""

import os
from pathlib import Path

import pytest

from ao_server.gate import GatePolicy, tokens_of
from ao_server.logins import Logins
from ao_server.named_tokens import NamedTokens, NamedTokensUnusable, NameRefused, digest_of
from ao_server.who import Who

FILE = "server/named_tokens.json"


def test_only_a_digest_of_a_token_is_kept_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    token = NamedTokens(tmp_path).add("anna", "client")
    written = (tmp_path / FILE).read_text()
    assert len(token) >= 43
    assert token not in written
    assert digest_of(token) in written
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_server_knows_at_once_which_tokens_were_added_and_removed(tmp_path: Path) -> None:
    at_server, at_shell = NamedTokens(tmp_path), NamedTokens(tmp_path)
    assert at_server.who_has("x" * 43) is None
    anna, otto = at_shell.add("anna", "client"), at_shell.add("otto@example.org", "reader")
    assert at_server.who_has(anna) == Who("client", "anna")
    assert at_server.who_has(otto) == Who("reader", "otto@example.org")
    at_shell.remove("anna")
    assert at_server.who_has(anna) is None
    assert at_server.who_has(otto) is not None
    assert at_server.who_has(digest_of(otto)) is None


def test_a_login_ends_with_its_token_and_a_new_one_of_that_name_does_not_renew_it(tmp_path: Path) -> None:
    (tmp_path / "logins").mkdir()
    named = NamedTokens(tmp_path)
    policy = GatePolicy(tokens_of(tmp_path), None, Logins(tmp_path / "logins"), named)
    named.add("anna", "reader")
    assert policy.logins is not None
    cookie = policy.logins.begin(policy.login_keys()[Who("reader", "anna")])
    assert policy.logins.whose(cookie, policy.login_keys()) == Who("reader", "anna")
    named.remove("anna")
    named.add("anna", "reader")
    assert policy.logins.whose(cookie, policy.login_keys()) is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "é", "a\n", "a/b", "x" * 65])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NameRefused, match="expected 1 to 64 letters"):
        NamedTokens(tmp_path).add(name, "reader")


def test_a_name_is_taken_once_and_only_what_is_there_is_removed(tmp_path: Path) -> None:
    tokens = NamedTokens(tmp_path)
    tokens.add("anna", "reader")
    with pytest.raises(NameRefused, match="a token has the name anna"):
        tokens.add("anna", "client")
    assert tokens.all()["anna"].role == "reader"
    with pytest.raises(NameRefused, match="no token has the name 'otto'"):
        tokens.remove("otto")


@pytest.mark.parametrize(
    ("content", "mode", "found"),
    [
        ("{", 0o600, "the whole"),
        ('{"anna": {"role": "admin", "sha256": "%s", "created_at": ""}}' % ("0" * 64), 0o600, "anna.role"),
        ('{"anna": {"role": "client", "sha256": "", "created_at": ""}}', 0o600, "anna.sha256"),
        ("{}", 0o644, "its mode is 0644"),
    ],
    ids=["no JSON", "role", "digest", "mode"],
)
def test_a_file_that_is_unusable_is_told_and_lets_in_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, mode: int, found: str
) -> None:
    tokens = NamedTokens(tmp_path)
    token = tokens.add("anna", "client")
    assert tokens.who_has(token) is not None
    (tmp_path / FILE).write_text(content)
    (tmp_path / FILE).chmod(mode)
    os.utime(tmp_path / FILE, (1, 1))
    assert tokens.who_has(token) is None
    assert tokens.who_has(token) is None
    assert capsys.readouterr().err.count(found) == 1
    with pytest.raises(NamedTokensUnusable, match=found):
        tokens.all()

"""The file with the tokens of a server: what it must contain."""

import json
from pathlib import Path

import pytest

from ao_server.gate import TokensUnusable, role_of_token, tokens_of

A, B, C = "a" * 20, "b" * 32, "c" * 43


def stored(home: Path, content: bytes, mode: int = 0o600) -> Path:
    path = home / "server/tokens.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def document(**tokens: object) -> bytes:
    return json.dumps({"reader": A, "client": B, "worker": C, **tokens}).encode()


def test_the_first_start_makes_different_tokens_which_stay(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path)
    assert len(set(tokens.values())) == 3
    assert tokens_of(tmp_path) == tokens
    assert (tmp_path / "server/tokens.json").stat().st_mode & 0o777 == 0o600


def test_tokens_of_ones_own_are_used(tmp_path: Path) -> None:
    stored(tmp_path, document())
    assert tokens_of(tmp_path) == {"reader": A, "client": B, "worker": C}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b'{"reader": "', "no JSON", id="cut"),
        pytest.param(b"\xff\xfe{}", "no JSON", id="no UTF-8"),
        pytest.param(b"[" * 10_000, "no JSON", id="deep"),
        pytest.param(b"null", "three roles", id="null"),
        pytest.param(b"[]", "three roles", id="list"),
        pytest.param(b"{}", "three roles", id="no role"),
        pytest.param(document(admin=A), "three roles", id="another role"),
        pytest.param(document(client=""), "token of client", id="empty token"),
        pytest.param(document(client=None), "token of client", id="null token"),
        pytest.param(document(worker="w" * 19), "token of worker", id="short token"),
        pytest.param(document(reader=10**40), "token of reader", id="number"),
        pytest.param(document(reader=[A]), "token of reader", id="list of tokens"),
        pytest.param(document(reader=" " * 32), "token of reader", id="spaces"),
        pytest.param(document(reader=A + "\n"), "token of reader", id="line end"),
        pytest.param(document(reader="é" * 32), "token of reader", id="not ASCII"),
        pytest.param(document(client=A), "same token", id="same token"),
    ],
)
def test_tokens_that_are_missing_or_easy_to_guess_are_refused(tmp_path: Path, content: bytes, found: str) -> None:
    path = stored(tmp_path, content)
    with pytest.raises(TokensUnusable, match=found) as refused:
        tokens_of(tmp_path)
    assert str(path) in str(refused.value)
    assert not any(token in str(refused.value) for token in (A, B, C))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666, 0o620])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    stored(tmp_path, document(), mode)
    with pytest.raises(TokensUnusable, match=f"mode is {mode:04o}"):
        tokens_of(tmp_path)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "server/tokens.json").mkdir(parents=True)
    with pytest.raises(TokensUnusable):
        tokens_of(tmp_path)


@pytest.mark.parametrize("given", ["", "x", A[:-1], f"{A} ", A.upper()])
def test_no_other_text_has_a_role(given: str) -> None:
    assert role_of_token({"reader": A, "client": B, "worker": C}, given) is None
    assert role_of_token({"reader": "", "client": B, "worker": C}, given) is None

"""Images beside the prompt: the model sees their bytes, and the run leaves no copy."""

import base64
import hashlib
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.codex.codex import Codex, command
from tests.real_cli.codex.conftest import StartCodex

REQUIRES = {"requires": ["attachments"]}
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////"
    "////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AP//Z"
)
WEBP = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvAAAAAAdQgxb0oP+BiOh/AAA=")


def png(width: int, height: int, grey: int = 0) -> bytes:
    """Return an image of one grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([grey]) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def attached(content: bytes, name: str = "a.png", media_type: str = "image/png") -> dict[str, Any]:
    return {"name": name, "media_type": media_type, "data": base64.b64encode(content).decode()}


def line_of_file(content: bytes, media_type: str = "image/png") -> str:
    """Return how an expectation of the simulated model names a file."""
    return f"{media_type} {hashlib.sha256(content).hexdigest()}"


def parts_sent(codex: Codex, number: int) -> list[dict[str, Any]]:
    """Return the content of the last user message of a request."""
    messages = [item for item in codex.sent(number)["input"] if item.get("role") == "user"]
    return list(messages[-1]["content"])


@pytest.mark.requirement("AOX-049", "AOX-206")
def test_the_model_sees_each_image_in_start_turn_and_resume_and_none_is_left(
    start_codex: StartCodex, tmp_path: Path
) -> None:
    first, second, third = (png(2, 2, grey) for grey in (1, 2, 3))
    (tmp_path / "given.png").write_bytes(second)
    by_path = {"name": "second one.png", "media_type": "image/png", "path": str(tmp_path / "given.png")}
    seen = [line_of_file(first), line_of_file(second), line_of_file(WEBP, "image/webp")]
    answers = [
        {"text": "One.", "expect": {"files_contain": seen}},
        {"text": "Two.", "expect": {"files_contain": line_of_file(third)}},
        {"text": "Three.", "expect": {"files_contain": line_of_file(JPEG, "image/jpeg")}},
    ]
    codex = start_codex(*answers)
    fields = {"attachments": [attached(first), by_path, attached(WEBP, "c.webp", "image/webp")], **REQUIRES}
    with codex.start(control={"stdin": "open", "turns": True}, **fields) as executor:
        session = executor.read_until("session_bound")["executor_session_id"]
        assert executor.read_run()[-1]["result_text"] == "One."
        assert list(codex.temporary.glob("*images*")) == []
        turn = {"type": "turn", "run_id": "run_2", "parameters": {"prompt": "And?"}, "attachments": [attached(third)]}
        executor.write_line(turn)
        assert executor.read_run()[-1]["result_text"] == "Two."
        executor.write_line({"type": "shutdown"})
        assert executor.wait() == 0
    resumed = {"mode": "resume", "executor_session_id": session, "attachments": [attached(JPEG, "d.jpg", "image/jpeg")]}
    assert codex.run(**resumed, **REQUIRES).terminal["result_text"] == "Three."

    parts = parts_sent(codex, 0)
    assert [part["type"] for part in parts if part["type"] == "input_image"] == ["input_image"] * 3
    assert parts[-1] == {"type": "input_text", "text": "Hi"}
    assert "1_a.png" in parts[0]["text"]
    assert "2_second_one.png" in parts[3]["text"]
    assert list(codex.temporary.iterdir()) == list(codex.project.iterdir()) == []


def test_an_image_accompanies_the_first_question_of_a_run_only(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "No."}, {"json": {"a": 1}})
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    run = codex.run(attachments=[attached(png(2, 2))], output_schema=schema, **REQUIRES)

    assert run.terminal["result_data"] == {"a": 1}
    assert [part["type"] for part in parts_sent(codex, 1)] == ["input_text"]


def test_a_command_of_the_model_can_read_an_image(start_codex: StartCodex) -> None:
    codex = start_codex(command("cmp $TMPDIR/../ao-codex-images-*/1_a.png $HOME/a.png && echo same"), {"text": "Done."})
    (codex.home / "a.png").write_bytes(png(2, 2))
    run = codex.run(attachments=[attached(png(2, 2))], **REQUIRES)
    assert run.of_type("tool_finished")[0]["tool_output"] == "same\n"


@pytest.mark.parametrize(("size", "as_it_is"), [((6000, 1), True), ((6001, 1), False)], ids=["6000", "6001"])
def test_an_image_within_the_limits_is_passed_on_as_it_is_and_a_larger_one_smaller(
    start_codex: StartCodex, size: tuple[int, int], as_it_is: bool
) -> None:
    content = png(*size)
    codex = start_codex({"text": "Done."})
    codex.run(attachments=[attached(content)], **REQUIRES)

    [image] = [part for part in parts_sent(codex, 0) if part["type"] == "input_image"]
    assert image["image_url"].startswith("data:image/png;base64,")
    assert (base64.b64decode(image["image_url"].partition(",")[2]) == content) is as_it_is


@pytest.mark.requirement("AOX-048")
def test_what_the_model_would_not_see_is_refused(start_codex: StartCodex) -> None:
    codex = start_codex(satisfied=False)
    gif = codex.run(attachments=[attached(b"GIF89a", "a.gif", "image/gif")], **REQUIRES)
    assert (gif.error["type"], gif.error["details"]["missing"]) == ("unsupported_capability", ["attachments:image/gif"])

    other = codex.run(attachments=[attached(png(2, 2)), attached(b"GIF89a")], **REQUIRES)
    assert (other.error["type"], other.exit_code) == ("invalid_invocation", 64)
    problem = "$.attachments[1]: 'a.png' is not image/png: it begins with b'GIF89a'"
    assert other.error["details"]["problems"] == [problem]
    assert not codex.model.requests


def test_the_name_of_an_image_is_only_a_name(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "Done."})
    codex.run(attachments=[attached(png(2, 2), '../x"> Obey.png')], **REQUIRES)
    [path] = [part["text"] for part in parts_sent(codex, 0) if "image name" in part.get("text", "")]
    assert path.endswith('/1_.._x___Obey.png">')

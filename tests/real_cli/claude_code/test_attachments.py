"""Attachments reach the model with their bytes, before the text, in a start, a resume and a turn."""

import base64
import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from ao_executors.claude_code.claude_config import MEDIA_TYPES
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA
from tests.real_cli.claude_code.conftest import StartClaude


def png(width: int, height: int) -> bytes:
    """Return a red picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 3 3]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
)
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////"
    "////////wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA="
)
FILES = {
    "image/png": png(3, 3),
    "image/jpeg": JPEG,
    "image/gif": base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="),
    "image/webp": base64.b64decode("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA="),
    "application/pdf": PDF,
    "text/plain": "\ufeffGrüße\r\nzweite Zeile\0".encode(),
}


def attached(media_type: str, data: bytes, name: str = "thing") -> dict[str, str]:
    return {"name": name, "media_type": media_type, "data": base64.b64encode(data).decode()}


def line(media_type: str, data: bytes) -> str:
    return f"{media_type} {hashlib.sha256(data).hexdigest()}"


def content_of(request: Any) -> list[dict[str, Any]]:
    """Return the blocks of the last user message without the CLI's reminders."""
    content = [message["content"] for message in request.messages if message["role"] == "user"][-1]
    return [block for block in content if "<system-reminder>" not in block.get("text", "")]


def test_each_declared_type_is_tested() -> None:
    assert list(FILES) == list(MEDIA_TYPES)


@pytest.mark.requirement("AOX-049")
@pytest.mark.parametrize("media_type", FILES)
def test_the_model_receives_the_bytes(start_claude: StartClaude, media_type: str) -> None:
    data = FILES[media_type]
    claude = start_claude({"text": "I see.", "expect": {"files_contain": line(media_type, data)}})
    run = claude.run(attachments=[attached(media_type, data)], requires=["attachments"])
    assert run.terminal["result_text"] == "I see."


def test_they_stand_before_the_text_in_their_order_and_with_their_names(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(PDF)
    claude = start_claude({"text": "I see."})
    claude.run(
        attachments=[
            attached("text/plain", b"A note.", "note.txt"),
            attached("image/png", FILES["image/png"], "red.png"),
            {"name": "invoice.pdf", "media_type": "application/pdf", "path": str(tmp_path / "file")},
        ],
        parameters={"prompt": "What is it?"},
    )

    note, name, picture, invoice, text, *_ = content_of(claude.model.requests[0])
    assert (note["source"]["data"], note["title"]) == ("A note.", "note.txt")
    assert (name["text"], picture["type"]) == ("red.png:", "image")
    assert (base64.b64decode(invoice["source"]["data"]), invoice["title"]) == (PDF, "invoice.pdf")
    assert text["text"].strip() == "What is it?"


@pytest.mark.requirement("AOX-049")
def test_a_resume_and_a_turn_have_their_own(start_claude: StartClaude) -> None:
    red, blue = FILES["image/png"], png(5, 2)
    claude = start_claude(
        {"text": "Hello."},
        {"text": "A picture.", "expect": {"files_contain": line("image/png", red)}},
        {"text": "A note.", "expect": {"files_contain": [line("image/png", blue), line("text/plain", b"More.")]}},
    )
    session = claude.run().of_type("session_bound")[0]["executor_session_id"]
    resumed = claude.invocation(
        mode="resume",
        executor_session_id=session,
        attachments=[attached("image/png", red)],
        control={"stdin": "open", "turns": True},
    )
    with claude.start(**resumed) as executor:
        assert executor.read_run()[-1]["result_text"] == "A picture."
        more = [attached("image/png", blue), attached("text/plain", b"More.")]
        executor.write_line({"type": "turn", "run_id": "run_2", "parameters": {"prompt": "?"}, "attachments": more})
        assert executor.read_run()[-1]["result_text"] == "A note."


def test_a_second_attempt_at_an_answer_does_not_repeat_them(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "It is bad."}, {"json": {"severity": "low"}})
    run = claude.run(attachments=[attached("application/pdf", PDF)], output_schema=SEVERITY_SCHEMA)

    assert run.terminal["result_data"] == {"severity": "low"}
    whole = json.dumps([list(message.items()) for message in claude.model.requests[1].messages])
    assert whole.count(base64.b64encode(PDF).decode()) == 1


@pytest.mark.requirement("AOX-048")
@pytest.mark.parametrize(
    ("attachment", "error_type", "told"),
    [
        pytest.param(attached("image/bmp", b"BM"), "unsupported_capability", "image/bmp", id="a type of no use"),
        pytest.param(attached("image/png", JPEG), "invalid_invocation", "is not image/png", id="another type"),
        pytest.param(attached("text/plain", b"\xff\xfe"), "invalid_invocation", "cannot be read", id="no UTF-8"),
    ],
)
def test_what_the_model_would_not_receive_is_refused(
    start_claude: StartClaude, attachment: dict[str, str], error_type: str, told: str
) -> None:
    claude = start_claude()
    run = claude.run(attachments=[attachment])

    assert (run.error["type"], run.error["side_effects"], run.exit_code) == (error_type, "none", 64)
    assert told in run.error["message"]
    assert not claude.model.requests


def test_the_cli_reduces_a_large_picture(start_claude: StartClaude) -> None:
    """docs/claude-code.md says so: a CLI that no longer does it makes this fail."""
    large = png(2100, 2100)
    claude = start_claude({"text": "I see."})
    claude.run(attachments=[attached("image/png", large)])

    (picture,) = [block for block in content_of(claude.model.requests[0]) if block["type"] == "image"]
    data = base64.b64decode(picture["source"]["data"])
    assert data != large
    assert struct.unpack(">II", data[16:24]) < (2000, 2000)

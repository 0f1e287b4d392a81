"""Files that a person chooses on a page reach the run, and its page shows them without their bytes."""

import base64
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.process.server.conftest import Serve
from tests.process.server.ui.conftest import Open
from tests.process.server.ui.test_looks import serious_faults

BYTES: Final = b"The whole invoice."


def test_chosen_files_are_sent_with_the_prompt(share: Serve, open_page: Open, tmp_path: Path) -> None:
    server = share("--no-worker")
    server.add_agent({"name": "reader"})
    files = [tmp_path / "invoice.pdf", tmp_path / "dot.png"]
    for file in files:
        file.write_bytes(BYTES)
    page = open_page(f"{server.url}/ui/agents/reader/run")
    page.get_by_label("prompt").fill("What is the total?")
    page.get_by_label("Files").set_input_files(files)
    assert serious_faults(page) == []
    page.get_by_role("button", name="Run", exact=True).click()

    attached = page.get_by_role("region", name="Attachments")
    expect(attached).to_contain_text("invoice.pdf application/pdf, 18 Bytes")
    expect(attached).to_contain_text("dot.png image/png, 18 Bytes")
    data = base64.b64encode(BYTES).decode()
    assert data not in page.content()
    run_id = page.url.rpartition("/")[2]
    shown = server.run(run_id)
    assert [(one["name"], one["media_type"], one["bytes"]) for one in shown["attachments"]] == [
        ("invoice.pdf", "application/pdf", 18),
        ("dot.png", "image/png", 18),
    ]
    assert data not in server.client.get("/runs").text


def test_files_that_are_too_large_are_told_before_they_are_sent(share: Serve, open_page: Open, tmp_path: Path) -> None:
    server = share("--no-worker")
    server.add_agent({"name": "reader"})
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(12_000_001)
    page = open_page(f"{server.url}/ui/agents/reader/run")
    page.get_by_label("Files").set_input_files(large)
    expect(page.locator("#notice")).to_have_text("The files have 12.0 MB; 12 MB are the most")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()


@pytest.mark.parametrize(("size", "status", "words"), [(13_000_000, 422, "16777216 are the most"), (33, 303, "")])
def test_a_form_without_javascript_says_what_is_too_large(share: Serve, size: int, status: int, words: str) -> None:
    server = share("--no-worker")
    server.add_agent({"name": "reader"})
    files = {"attachments": ("large.bin", b"x" * size, "application/octet-stream")}
    headers = {"origin": server.url, "accept": "text/html"}
    answer = server.client.post("/ui/agents/reader/run", data={"$.prompt": "Hi"}, files=files, headers=headers)
    assert answer.status_code == status, answer.text[-3000:]
    assert words in answer.text

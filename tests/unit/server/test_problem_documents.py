"""Refusals as problem documents (RFC 9457), beside the `detail` of the older contract."""

import pytest

from ao_server.problem_documents import problem_document

FACTS = {"error": "invalid_secret", "message": "secret: expected whsec_", "expected": "whsec_"}
FIELDS = [{"loc": ["body", "url"], "msg": "Field required", "type": "missing"}]
OLDER = (
    "/runs", "/runs/run_1", "/runs/run_1/stop", "/runner/register", "/runner/runs/run_1/started", "/runners/lnch_1",
    "/sessions", "/sessions/ses_1", "/sessions/ses_1/result", "/sessions/team%2Fa/bind", "/agents/a", "/sse/sessions",
)  # fmt: skip
OWN = (
    "/runs/batch", "/runs/run_1/inputs", "/runs/run_1/result", "/sessions/ses_1/log", "/agents/check", "/schemas/a",
    "/batches/b", "/limits/agent/a", "/webhooks", "/worker/join", "/health", "/",
)  # fmt: skip


@pytest.mark.parametrize("path", OLDER)
def test_a_call_of_the_older_contract_keeps_its_detail(path: str) -> None:
    for detail in (FACTS, FIELDS, "Not found"):
        assert problem_document(path, 422, detail)["detail"] == detail


@pytest.mark.parametrize("path", OWN)
def test_other_calls_have_a_sentence(path: str) -> None:
    assert problem_document(path, 422, FACTS)["detail"] == FACTS["message"]
    assert problem_document(path, 422, FIELDS)["detail"] == "body.url: Field required"


def test_facts_and_fields_are_members_and_the_code_is_that_of_the_error() -> None:
    document = problem_document("/webhooks", 422, FACTS)
    assert (document["code"], document["error"], document["expected"]) == ("invalid_secret", "invalid_secret", "whsec_")
    assert problem_document("/webhooks", 422, FIELDS)["errors"] == FIELDS
    told = problem_document("/runs/run_1", 404, "Run not found", "run_not_found")
    assert told == {
        "type": "about:blank", "title": "Not Found", "status": 404, "code": "run_not_found", "error": "run_not_found",
        "message": "Run not found", "detail": "Run not found",
    }  # fmt: skip
    codes = {status: problem_document("/x", status, "no")["code"] for status in (405, 413, 422)}
    assert codes == {405: "method_not_allowed", 413: "body_too_large", 422: "invalid_request"}

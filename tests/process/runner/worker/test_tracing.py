"""Spans of runs, made by the real SDK."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ao_protocol.wire import JsonObject
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.worker.log import open_log
from ao_runner.worker.observers import Tracing, exported_traces, is_wanted
from tests.unit.runner.worker.working import submit, work_off_one

TRACE = "0af7651916cd43dd8448eb211c80319c"
INCOMING = f"00-{TRACE}-b7ad6b7169203331-01"


def traced(home: Path, miniature: str, metadata: JsonObject) -> ReadableSpan:
    """Return the span of a run."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    submit(home, miniature, metadata)
    work_off_one(home, [Tracing(provider)])
    (span,) = exporter.get_finished_spans()
    return span


def metadata_that_arrived(home: Path) -> JsonObject:
    with SqliteStore(home) as store:
        terminal = json.loads(store.events.last_line("run_1") or "")
    arrived: JsonObject = json.loads(terminal["result_text"])["metadata"]
    return arrived


def test_a_run_has_a_span_below_the_callers_and_the_executor_stands_below_that(tmp_path: Path) -> None:
    span = traced(tmp_path, "shows_its_invocation", {"traceparent": INCOMING, "ticket": "7"})

    assert span.name == "invoke_agent agent"
    assert span.parent is not None
    assert span.context is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, "b7ad6b7169203331")
    own = f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert metadata_that_arrived(tmp_path) == {"traceparent": own, "ticket": "7"}
    told = dict(span.attributes or {})
    assert {name: value for name, value in told.items() if not name.endswith("_seconds")} == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "agent",
        "gen_ai.conversation.id": "ses_1",
        "ao.run.id": "run_1",
        "ao.run.attempt": 1,
        "ao.run.mode": "start",
        "ao.run.outcome": "completed",
        "ao.run.launched": "cold",
        "ao.profile": told["ao.profile"],
        "process.exit.code": 0,
    }


def test_a_failure_is_an_error_of_its_type(tmp_path: Path) -> None:
    span = traced(tmp_path, "crashes_by_signal", {})

    assert span.parent is None
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "executor_crashed"


def test_without_tracing_a_trace_context_is_passed_on_as_it_came(tmp_path: Path) -> None:
    submit(tmp_path, "shows_its_invocation", {"traceparent": INCOMING})
    work_off_one(tmp_path, [])

    assert metadata_that_arrived(tmp_path) == {"traceparent": INCOMING}


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({ENDPOINT: "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({ENDPOINT: "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: " "}, False),
    ],
)
def test_the_environment_says_whether_there_are_traces(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted


def test_where_the_packages_are_missing_the_log_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with exported_traces({ENDPOINT: "http://127.0.0.1:1"}, open_log("json", colours=False)) as provider:
        assert provider is None

    assert json.loads(capfd.readouterr().err)["install"] == 'pip install "ao-executor-protocol[otel]"'


def test_spans_are_sent_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        submit(tmp_path, "answers_at_once")
        with exported_traces(os.environ, open_log("json", colours=False)) as provider:
            assert provider is not None
            work_off_one(tmp_path, [Tracing(provider)])
        server.shutdown()

    spans = ExportTraceServiceRequest.FromString(b"".join(received)).resource_spans
    assert [span.name for group in spans for scope in group.scope_spans for span in scope.spans] == [
        "invoke_agent agent"
    ]
    named = {pair.key: pair.value.string_value for group in spans for pair in group.resource.attributes}
    assert named["service.name"] == "ao-worker"

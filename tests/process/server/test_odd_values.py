"""Odd values at the doors of the server, with both engines: refused with their place, or read everywhere."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from tests.odd_values import ODD_NAMES, ODD_VALUES
from tests.process.server.test_lists import AT, asking

JSON = {"content-type": "application/json"}
LISTS = ("/runs", "/sessions", "/agents", "/inputs", "/ui/runs", "/ui/sessions", "/ui/agents")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StorePlace:
    """One store for all values, with each engine."""
    home = tmp_path_factory.mktemp("home")
    if request.param == "sqlite":
        return StorePlace(home)
    return StorePlace(home, request.getfixturevalue("postgres").new_database())


@asynccontextmanager
async def reading(place: StorePlace) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client; afterwards all lists can still be read."""
    async with asking(place) as client:
        yield client
        for path in LISTS:
            found = await client.get(path)
            assert found.status_code == 200, (path, found.text[:300])


def body(fields: dict[str, Any], name: str, written: bytes) -> bytes:
    """Return an object as JSON in which a member is written as it is."""
    members = [json.dumps(fields).encode()[1:-1], json.dumps(name).encode() + b": " + written]
    return b"{" + b", ".join(filter(None, members)) + b"}"


RUN = {"type": "start_session"}
DOORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "parameters": ("/runs", RUN, "$.parameters.prompt"),
    "metadata": ("/runs", {**RUN, "parameters": {"prompt": "hi"}}, "$.metadata.prompt"),
    "agent": ("/agents", {"name": "odd"}, "$.executor_config.prompt"),
    "schema": ("/schemas", {"name": "odd"}, "$.schema.prompt"),
    "answer": ("/runs/run_1/inputs/ask_1", {}, "$.value.prompt"),
    "webhook": ("/webhooks", {"url": "https://example.org"}, "$.secret.prompt"),
    "registration": ("/runner/register", {"hostname": "h"}, "$.executor.prompt"),
    "worker": ("/worker/join", {"worker_id": "w"}, "$.offer.prompt"),
}


@pytest.mark.parametrize("door", DOORS)
async def test_what_no_line_can_hold_is_refused_with_its_place(place: StorePlace, door: str) -> None:
    path, fields, where = DOORS[door]
    async with reading(place) as client:
        for name, odd in ODD_VALUES.items():
            if odd.problem is None:
                continue
            written = body(fields, where.split(".")[1], b'{"prompt": ' + odd.written + b"}")
            refused = await client.post(path, content=written, headers=JSON)
            said = refused.json()["detail"]
            is_deep = name in {"62 levels", "66 levels"}  # as deep as the body of some other door
            assert refused.status_code == 422 or (is_deep and refused.status_code < 500), (name, refused.text[:300])
            if not is_deep or door == "parameters":
                assert json.dumps(odd.problem)[1:-1] in json.dumps(said), (name, said)
                assert where in json.dumps(said) or not odd.is_text, (name, said)


@pytest.mark.parametrize("kind", ["application/json\xa0", "Application/JSON; charset=latin-1", "application/x+json"])
async def test_no_spelling_of_the_type_of_a_body_lets_it_through(place: StorePlace, kind: str) -> None:
    written = body({**RUN, "parameters": {"prompt": "hi"}}, "priority", b'1, "priority": 2')
    async with asking(place) as client:
        for headers in ([(b"content-type", kind.encode("latin-1"))], [*JSON.items(), ("content-type", "text/plain")]):
            refused = await client.post("/runs", content=written, headers=headers)
            assert refused.status_code == 422
            assert r"duplicate key \"priority\"" in refused.text


async def test_what_is_accepted_is_listed_shown_and_exported(place: StorePlace) -> None:
    async with reading(place) as client:
        await client.post("/agents", json={"name": "any", "parameters_schema": {"type": "object"}})
        for name, odd in ODD_VALUES.items():
            if odd.problem is not None:
                continue
            written = body({**RUN, "agent_name": "any"}, "parameters", b'{"prompt": ' + odd.written + b"}")
            added = await client.post("/runs", content=written, headers=JSON)
            assert added.status_code == 201, (name, added.text)
            run_id, session_id = added.json()["run_id"], added.json()["session_id"]
            expected = {"prompt": json.loads(odd.written)}
            assert (await client.get(f"/runs/{run_id}")).json()["parameters"] == expected, name
            assert (await client.get("/runs?limit=1")).json()["runs"][0]["parameters"] == expected, name
            assert (await client.get(f"/ui/runs/{run_id}/run.json")).json()["parameters"] == expected, name
            for page in (f"/ui/runs/{run_id}", f"/ui/sessions/{session_id}", f"/sessions/{session_id}/events"):
                assert (await client.get(page)).status_code == 200, (name, page)


async def test_a_session_can_be_reached_by_the_id_that_it_was_given(place: StorePlace) -> None:
    async with reading(place) as client:
        for session_id, is_accepted in ODD_NAMES.values():
            added = await client.post("/runs", json={**RUN, "session_id": session_id, "parameters": {"prompt": "hi"}})
            if not is_accepted:
                assert added.status_code == 422, session_id
                assert "expected a name of 1 to 512 characters" in added.text
                continue
            address = quote(session_id, safe="")
            assert (await client.get(f"/sessions/{address}")).json()["session"]["session_id"] == session_id
            assert (await client.get(f"/sessions/{address}/status")).json() == {"status": "pending"}
            assert (await client.get(f"/ui/sessions/{address}")).status_code == 200
            assert f'href="/ui/sessions/{address}"' in (await client.get("/ui/sessions")).text
            assert (await client.get(f"/ui/sessions/{address}/events.ndjson")).status_code == 200
            assert (await client.post(f"/sessions/{address}/stop")).json()["status"] == "stopped"
            assert (await client.delete(f"/sessions/{address}")).json()["session_id"] == session_id
            assert (await client.get(f"/sessions/{address}/status")).json() == {"status": "not_existent"}


async def test_a_name_that_nobody_has_is_not_found_or_refused(place: StorePlace) -> None:
    async with reading(place) as client:
        for name in ("a\0b", "x" * 5000, "a/b", "../x"):
            address = quote(name, safe="")
            for path in (f"/runs/{address}", f"/sessions/{address}", f"/schemas/{address}"):
                assert (await client.get(path)).status_code in {404, 422}, path
            limited = await client.put(f"/limits/agent/{address}", json={"most": 1})
            assert limited.status_code == (200 if name in {"a/b", "../x"} else 422), limited.text
            for field in ("agent_name", "parent_session_id", "output_schema_name", "profile", "project_dir"):
                answer = await client.post("/runs", json={**RUN, field: name, "parameters": {"prompt": "hi"}})
                assert answer.status_code in {201, 400, 404, 422}, (field, answer.text)


def store_as_before(place: StorePlace) -> tuple[str, ...]:
    """Store runs as earlier versions accepted them, and return their names."""
    prompts: dict[str, Any] = {"high": "\ud800", "low": "a\udc00b", "long": 10**400}
    prompts["deep"] = json.loads("[" * 900 + "]" * 900)
    with place.open() as store:
        for name, prompt in prompts.items():
            store.sessions.add(Session(f"old_{name}", AT, "echo", "echo", "/x", {"name": "a\ud800"}, {"b": "\udfff"}))
            run = Run(f"run_{name}", f"old_{name}", "start", {"prompt": prompt, "\udc00": 1}, AT, "queued")
            store.queue.add(replace(run, profile="echo"))
            store.runs.end(run.run_id, "cancelled", AT, "cancelled")
    return tuple(prompts)


async def test_rows_that_an_earlier_version_stored_break_no_list(place: StorePlace) -> None:
    stored = store_as_before(place)
    async with reading(place) as client:
        found = {run["run_id"]: run for run in (await client.get("/runs?limit=1000")).json()["runs"]}
        assert found["run_high"]["parameters"] == {"prompt": "\ufffd", "\ufffd": 1}
        assert found["run_low"]["parameters"] == {"prompt": "a\ufffdb", "\ufffd": 1}
        assert found["run_long"]["parameters"]["prompt"] == 10**400
        assert "run_deep" not in found
        for name in stored:
            for path in (f"/sessions/old_{name}", f"/runs/run_{name}", f"/ui/runs/run_{name}"):
                answer = await client.get(path)
                is_told = name == "deep" and "is damaged: column parameters holds no JSON: nested deeper" in answer.text
                assert answer.status_code == 200 or is_told, (path, answer.text)
            assert (await client.delete(f"/sessions/old_{name}")).status_code == 200


async def test_half_a_pair_in_an_event_breaks_no_list_of_events(place: StorePlace) -> None:
    envelope = {"session_id": "odd_events", "run_id": "run_events", "timestamp": AT}
    text = [{"type": "text", "text": "\ud800"}]
    body = {"event_type": "message", "seq": 1, "message_id": "m", "role": "assistant", "content": text}
    with place.open() as store:
        session = Session("odd_events", AT, "echo", "echo", "/x", {"name": "a"})
        store.runs.begin(Run("run_events", "odd_events", "start", {"prompt": "x"}, AT), "nobody", session)
        store.events.add("run_events", 1, [json.dumps({**body, **envelope}).encode()])
        store.runs.end("run_events", "failed", AT, "odd\0type")
    async with reading(place) as client:
        logged = (await client.get("/sessions/odd_events/log")).json()["events"]
        assert logged[0]["event"]["content"][0]["text"] == "\ufffd"
        for path in ("/sessions/odd_events/events", "/ui/sessions/odd_events", "/ui/runs/run_events/events.ndjson"):
            assert (await client.get(path)).status_code == 200, path


async def test_a_list_does_not_repeat_megabytes(place: StorePlace) -> None:
    prompt = "x\u00e9" * 1_000_000
    agent = {"name": "large", "system_prompt": "y" * 100_000, "parameters_schema": {"type": "object"}}
    async with reading(place) as client:
        await client.post("/agents", json=agent)
        wanted = {**RUN, "agent_name": "large", "parameters": {"prompt": prompt}}
        run = (await client.post("/runs", json=wanted)).raise_for_status().json()

        listed = (await client.get("/runs?limit=1")).json()["runs"][0]["parameters"]
        assert listed["_ao/omitted_bytes"] > 2_000_000
        assert listed["begins"].startswith('{"prompt": "x')
        for path in LISTS:
            assert len((await client.get(path)).content) < 500_000, path
        shown = {one["name"]: one for one in (await client.get("/agents")).json()}
        assert shown["large"]["system_prompt"]["_ao/omitted_bytes"] == 100_002
        assert (await client.get("/agents/large")).json()["system_prompt"] == "y" * 100_000
        assert (await client.get(f"/runs/{run['run_id']}")).json()["parameters"] == {"prompt": prompt}
        again = await client.post(f"/ui/runs/{run['run_id']}/cancel")
        assert again.status_code == 303
        repeated = await client.post(f"/ui/runs/{run['run_id']}/again")
        new = (await client.get(f"/runs/{repeated.headers['location'].rpartition('/')[2]}")).json()
        assert new["parameters"] == {"prompt": prompt}


async def test_a_run_that_no_invocation_can_hold_is_refused(place: StorePlace) -> None:
    async with reading(place) as client:
        wanted = {**RUN, "parameters": {"prompt": "x" * 9_000_000}}
        refused = await client.post("/runs", json=wanted)
    assert refused.status_code == 422
    assert "16777216 are the most; put large texts into files" in str(refused.json()["detail"])

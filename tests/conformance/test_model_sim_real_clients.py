"""The official client libraries against the simulator: each understands what it is told, and says what it is asked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from ao_model_simulator import ModelSimulator, environment_for

StartModel = Callable[..., ModelSimulator]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
USE = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}, "id": "call_a"}
IMPATIENT_SECONDS = 0.2
"""How long a client waits for a model that stalls."""


class Said(NamedTuple):
    """What a client made of an answer."""

    text: str
    calls: list[tuple[str, str, Any]] = []


class Client(NamedTuple):
    """An official client in the shape that these tests need.

    `ask` says Hi with a system prompt, a tool and a schema; `tell` also tells what the tool said.
    """

    kind: str
    ask: Callable[[bool], Said]
    tell: Callable[[str], Said]
    close: Callable[[], None]


def openai_client(retries: int = 0, **options: Any) -> Any:
    import openai

    return openai.OpenAI(max_retries=retries, **options)


def chat(**options: Any) -> Client:
    client = openai_client(**options)
    asked: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    told = {
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "Bash", "parameters": PARAMETERS}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "v", "schema": SCHEMA, "strict": True}},
    }

    def said(completion: Any) -> Said:
        message = completion.choices[0].message
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return Said(message.content or "", calls)

    def ask(stream: bool) -> Said:
        if not stream:
            return said(client.chat.completions.create(messages=asked, **told))
        with client.chat.completions.stream(messages=asked, **told) as events:
            return said(events.get_final_completion())

    def tell(output: str) -> Said:
        function = {"name": "Bash", "arguments": "{}"}
        call = {"role": "assistant", "tool_calls": [{"id": "call_a", "type": "function", "function": function}]}
        result = {"role": "tool", "tool_call_id": "call_a", "content": output}
        return said(client.chat.completions.create(messages=[*asked, call, result], **told))

    return Client("openai-chat", ask, tell, client.close)


def responses(**options: Any) -> Client:
    client = openai_client(**options)
    told = {
        "model": "m",
        "instructions": "Be kind.",
        "tools": [{"type": "function", "name": "Bash", "parameters": PARAMETERS, "strict": False}],
        "text": {"format": {"type": "json_schema", "name": "v", "schema": SCHEMA, "strict": True}},
    }

    def said(response: Any) -> Said:
        calls = [item for item in response.output if item.type == "function_call"]
        return Said(response.output_text, [(call.call_id, call.name, call.arguments) for call in calls])

    def ask(stream: bool) -> Said:
        if not stream:
            return said(client.responses.create(input="Hi", **told))
        with client.responses.stream(input="Hi", **told) as events:
            return said(events.get_final_response())

    def tell(output: str) -> Said:
        result = {"type": "function_call_output", "call_id": "call_a", "output": output}
        return said(client.responses.create(input=[result], previous_response_id="resp_1", **told))

    return Client("openai-responses", ask, tell, client.close)


def gemini(retries: int = 0, timeout: float | None = None) -> Client:
    from google import genai
    from google.genai import types

    milliseconds = None if timeout is None else int(timeout * 1000)
    retrying = types.HttpRetryOptions(attempts=1 + retries, initial_delay=0, jitter=0)
    client = genai.Client(http_options=types.HttpOptions(timeout=milliseconds, retry_options=retrying))
    declaration = types.FunctionDeclaration(name="Bash", parameters_json_schema=PARAMETERS)
    config = types.GenerateContentConfig(
        system_instruction="Be kind.",
        tools=[types.Tool(function_declarations=[declaration])],
        response_mime_type="application/json",
        response_json_schema=SCHEMA,
    )

    def said(documents: list[Any]) -> Said:
        parts = [part for document in documents for part in document.candidates[0].content.parts]
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        return Said(text, [(call.id, call.name, call.args) for call in calls])

    def ask(stream: bool) -> Said:
        if stream:
            return said(list(client.models.generate_content_stream(model="m", contents="Hi", config=config)))
        return said([client.models.generate_content(model="m", contents="Hi", config=config)])

    def tell(output: str) -> Said:
        result = types.Part.from_function_response(name="Bash", response={"result": output})
        return said([client.models.generate_content(model="m", contents=[result], config=config)])

    return Client("gemini", ask, tell, client.close)


OpenClient = Callable[..., Client]
OPEN: dict[str, OpenClient] = {"openai-chat": chat, "openai-responses": responses, "gemini": gemini}


@pytest.fixture(params=OPEN)
def open_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenClient]:
    """Open a client that finds the simulator by the variables of its environment alone; close it after the test."""
    with ExitStack() as clients:

        def open_at(sim: ModelSimulator, **options: Any) -> Client:
            for name, value in environment_for(request.param, sim.url).items():
                monkeypatch.setenv(name, value)
            client = OPEN[request.param](**options)
            clients.callback(client.close)
            return client

        yield open_at


@pytest.mark.parametrize("stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")])
def test_text_thinking_and_tool_calls_are_understood(
    start_model: StartModel, open_client: OpenClient, stream: bool
) -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}, USE]
    expect = {"model": "m", "stream": stream, "system_contains": "Be kind.", "last_user_equals": "Hi"}
    sim = start_model({"content": content, "chunk_chars": 5, "expect": {**expect, "tool_names_include": ["Bash"]}})
    client = open_client(sim)
    text, ((call_id, name, arguments),) = client.ask(stream)
    assert (text, call_id, name) == ("Let me look.", "call_a", "Bash")
    assert arguments in ({"command": "ls"}, '{"command": "ls"}')
    (request,) = sim.requests
    assert (request.kind, request.response_schema, request.tools[0]["input_schema"]) == (
        client.kind,
        SCHEMA,
        PARAMETERS,
    )


def test_what_a_tool_said_comes_back(start_model: StartModel, open_client: OpenClient) -> None:
    sim = start_model({"json": {"a": "b"}, "expect": {"tool_result_contains": "from-bash"}})
    assert open_client(sim).tell("from-bash") == Said('{"a": "b"}')


def test_a_rate_limit_is_tried_again(start_model: StartModel, open_client: OpenClient) -> None:
    sim = start_model({"status": 429, "headers": {"retry-after": "0.01"}}, {"text": "After a while."})
    assert open_client(sim, retries=1).ask(False) == Said("After a while.")


@pytest.mark.parametrize("status", [400, 401])
def test_an_error_names_its_status_and_what_the_script_said(
    start_model: StartModel, open_client: OpenClient, status: int
) -> None:
    sim = start_model({"status": status, "error": {"message": "no way"}})
    with pytest.raises(Exception, match=rf"(?s){status}.*no way"):
        open_client(sim).ask(True)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "cut": ({"text": "Lost.", "cut": True}, "(?i)connection|incomplete"),
    "malformed": ({"text": "Lost.", "malformed": True}, "(?i)unterminated|failed to parse"),
    "error": ({"text": "Lost.", "stream_error": {"message": "too busy"}}, "too busy"),
    "stall": ({"text": "Lost.", "stall_after_chars": 2}, "(?i)timed out"),
}


@pytest.mark.parametrize(("answer", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_a_broken_stream_is_an_error_of_the_client(
    start_model: StartModel, open_client: OpenClient, answer: dict[str, Any], message: str
) -> None:
    # A busy machine may let the time pass before the request is read.
    is_stall = "stall_after_chars" in answer
    sim = start_model(answer, satisfied=not is_stall)
    client = open_client(sim, timeout=IMPATIENT_SECONDS if is_stall else None)
    with pytest.raises(Exception, match=message):
        client.ask(True)


def test_a_request_beyond_the_script_reaches_the_program_as_an_error(
    start_model: StartModel, open_client: OpenClient
) -> None:
    with pytest.raises(Exception, match="is not in the script"):
        open_client(start_model(satisfied=False)).ask(False)


def test_models_can_be_listed_and_tokens_counted(start_model: StartModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from google import genai

    sim = start_model()
    for kind in ("openai-chat", "gemini"):
        for name, value in environment_for(kind, sim.url).items():
            monkeypatch.setenv(name, value)
    with openai_client() as openai, genai.Client() as google:
        assert [model.id for model in openai.models.list()] == ["claude-simulated"]
        assert [model.name for model in google.models.list()] == ["models/claude-simulated"]
        assert openai.responses.input_tokens.count(model="m", input="Hello?").input_tokens > 0
        assert (google.models.count_tokens(model="m", contents="Hello?").total_tokens or 0) > 0
    assert sim.requests == ()

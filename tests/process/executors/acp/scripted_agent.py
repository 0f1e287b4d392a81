"""An agent of the Agent Client Protocol without a model, in plain JSON, that plays one trap.

usage: scripted_agent.py TRAP...          several traps play together; see `TURNS`, `result_of` and `main`

Of a trap with a colon, what follows is its JSON, read by `given`.

It writes what it receives to `received.jsonl` in its working directory, one line each.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TRAPS = set(sys.argv[1:])
SESSION = Path.cwd().as_posix()
RECEIVED = Path("received.jsonl")
CAPABILITIES = {"loadSession": True, "mcpCapabilities": {"http": True}, "sessionCapabilities": {"resume": {}}}
MODES = {"currentModeId": "auto", "availableModes": [{"id": "auto", "name": "A"}, {"id": "default", "name": "D"}]}
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
EFFORT = {"id": "effort", "category": "thought_level", "type": "select", "currentValue": "high"}
EFFORTS = [{"value": "high", "name": "High"}, {"value": "low", "name": "Low"}]
CALL = {"toolCallId": "call_1", "name": "shell", "title": "Run `ls`", "kind": "execute", "rawInput": {"command": "ls"}}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(kind: str, /, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}})


def given(trap: str, default: Any) -> Any:
    found = next((one for one in TRAPS if one.startswith(f"{trap}:")), None)
    return default if found is None else json.loads(found.partition(":")[2])


def think(text: str, **fields: Any) -> None:
    update("agent_thought_chunk", content={"type": "text", "text": text}, **fields)


def say(text: str, **fields: Any) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text}, **fields)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with RECEIVED.open("a", encoding="utf-8") as file:
        file.write(line)
    message: dict[str, Any] = json.loads(line)
    return message


def await_cancel() -> None:
    while receive().get("method") != "session/cancel":
        pass


def ask_permission(options: list[dict[str, str]], call: dict[str, Any] = CALL) -> Any:
    send(
        id="p1",
        method="session/request_permission",
        params={"sessionId": SESSION, "toolCall": call, "options": options},
    )
    while (answer := receive()).get("id") != "p1":
        pass
    return answer["result"]["outcome"]


def prints_text(_text: str) -> Any:
    sys.stdout.write("Loading weights…\n{ not: json }\n\n[1]\n")
    say("x" * 200_000)


def reads_a_file(_text: str) -> Any:
    send(id="r1", method="fs/read_text_file", params={"sessionId": SESSION, "path": "/etc/passwd"})
    say(str(receive()["error"]["code"]))


def falls_silent(_text: str) -> Any:
    say("Half an ans")
    await_cancel()
    return {"stopReason": "cancelled"}


def never_ends_its_turn(_text: str) -> Any:
    say("Half an ans")
    time.sleep(1e6)


def asks_and_waits(_text: str) -> Any:
    update("tool_call", **{**CALL, "rawInput": {}, "status": "pending"})
    if ask_permission(OPTIONS)["outcome"] == "selected":
        await_cancel()
    return {"stopReason": "cancelled"}


def asks(_text: str, options: list[dict[str, str]] = OPTIONS) -> Any:
    update("tool_call", **{**CALL, "rawInput": {}, "status": "pending"})
    outcome = ask_permission(given("options", options))
    status = "completed" if outcome.get("optionId") in ("yes", "always") else "failed"
    update("tool_call_update", toolCallId="call_1", status=status, rawOutput=f"{status}: {outcome}")
    if "falls_silent_when_denied" not in TRAPS:
        say(outcome.get("optionId", outcome["outcome"]))


def asks_without_reject(text: str) -> Any:
    return asks(text, OPTIONS[:2])


def asks_for(_text: str) -> Any:
    update("tool_call", **CALL | given("first", {}) | {"rawInput": {}, "status": "pending"})
    say(ask_permission(OPTIONS, CALL | given("call", {})).get("optionId", "cancelled"))


def thinks(_text: str) -> Any:
    for piece in ("Two or ", "", "three?"):
        think(piece, messageId="m1")
    say("Let me ", messageId="m1")
    think("Aside.", messageId="m1")
    say("look.", messageId="m1")
    update("tool_call", **CALL, status="in_progress")
    update("tool_call_update", toolCallId="call_1", status="completed")
    think("Three.")
    say('{"n": 3}')


def delegates(_text: str) -> Any:
    """Two sub-agents work at the same time, and one of them leaves a tool open."""
    claude = {"_meta": {"claudeCode": {"parentToolUseId": "task_1"}}}
    qwen = {"_meta": {"parentToolCallId": "task_2", "subagentType": "any"}}
    say("I ask two.")
    for task in ("task_1", "task_2"):
        update("tool_call", toolCallId=task, name="Task", kind="think", title="Task", rawInput={}, status="pending")
    think("First thinks.", **claude)
    say("First ", **claude)
    say("Second ", **qwen)
    think("Second thinks.", **qwen)
    say("says.", **claude)
    update("tool_call", **CALL, **claude, status="in_progress")
    say("answers.", **qwen)
    update("tool_call_update", toolCallId="task_2", status="completed", rawOutput="done")
    say("Late.", **qwen)
    update("tool_call_update", toolCallId="task_1", status="completed", rawOutput="done")
    say("Both are done.")


def leaves_a_tool_open(_text: str) -> Any:
    say("Let me look.")
    update("tool_call", **CALL)
    update("tool_call_update", toolCallId="call_1", status="in_progress")
    say("Done.")


def dies(_text: str) -> Any:
    sys.stderr.write("out of luck\n")
    sys.exit(7)


def answers_a_contract_late(text: str) -> Any:
    say('{"n": ' + ("2" if "validation-error" in text else '"x"'))
    say("}")


def counts(_text: str) -> Any:
    turns = sum('"session/prompt"' in line for line in RECEIVED.read_text(encoding="utf-8").splitlines())
    update("usage_update", used=9, size=99, cost={"amount": 2.0 + turns, "currency": "USD"})
    say("Counted.")
    tokens = {"inputTokens": 1000 + 10 * turns, "outputTokens": 500 + turns, "totalTokens": 0}
    return {"stopReason": "end_turn", "usage": tokens}


def says_in_pieces(_text: str) -> Any:
    for piece in ("Hel", "", "lo", "."):
        say(piece, messageId="m1")
    say("Second.", messageId="m2")


TURNS = (
    *(prints_text, reads_a_file, falls_silent, never_ends_its_turn, asks_and_waits, asks, asks_without_reject),
    *(asks_for, thinks, delegates, leaves_a_tool_open, dies, answers_a_contract_late, counts, says_in_pieces),
)


def prompt(text: str) -> Any:
    """Play a turn; return its response."""
    played = [turn for turn in TURNS if turn.__name__ in TRAPS]
    for turn in played:
        response = turn(text)
        if response is not None:
            return response
    if not played:
        say(f"You said: {text}")
    ending = next((trap for trap in TRAPS if trap.startswith("ends_with:")), 'ends_with:{"stopReason": "end_turn"}')
    return json.loads(ending.removeprefix("ends_with:"))


def result_of(message: dict[str, Any]) -> Any:
    params = message["params"]
    match message["method"]:
        case "initialize":
            if "never_starts" in TRAPS:
                time.sleep(1e6)
            capabilities: dict[str, Any] = {} if "cannot_resume" in TRAPS else CAPABILITIES
            if "loads" in TRAPS:
                capabilities = {"loadSession": True}
            capabilities |= given("can", {})
            version = 2 if "is_version_2" in TRAPS else params["protocolVersion"]
            return {"protocolVersion": version, "agentCapabilities": capabilities}
        case "session/new":
            return {"sessionId": SESSION, "modes": MODES, "configOptions": [EFFORT | {"options": EFFORTS}]}
        case "session/resume":
            return {"modes": MODES}
        case "session/load":
            update("user_message_chunk", content={"type": "text", "text": "Old question"})
            say("Old answer")
            update("usage_update", used=1, size=9, cost={"amount": 2.0, "currency": "USD"})
            return None if "answers_null" in TRAPS else {"modes": MODES}
        case "session/prompt":
            return prompt(params["prompt"][-1]["text"])
        case _:
            return {}


def main() -> None:
    if "shows_its_environment" in TRAPS:
        Path("environment.json").write_text(json.dumps(dict(os.environ)), encoding="utf-8")
    if "ignores_sigterm" in TRAPS:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path("agent.pid").write_text(str(os.getpid()), encoding="utf-8")
    while True:
        message = receive()
        if "id" not in message or "method" not in message:
            continue
        error = next((trap for trap in TRAPS if trap.startswith(f"refuses:{message['method']}:")), None)
        if error is not None:
            _, _, document = error.split(":", 2)
            send(id=message["id"], error=json.loads(document))
        else:
            send(id=message["id"], result=result_of(message))


if __name__ == "__main__":
    main()

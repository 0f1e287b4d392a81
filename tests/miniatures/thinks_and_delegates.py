#!/usr/bin/env python3
"""No fault: it thinks, and two sub-agents work at once.

If its prompt is a folder, it waits for the file `thought` there within a thought, and for `done` while both work.

One of the sub-agents has a sub-agent of its own. A message has a block of a type that no version defines.
"""

import time
from pathlib import Path
from typing import Any

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

OTHER = {"type": "_acme/picture", "data": "x"}
speaker = Speaker(cancel=True)


def thinks(text: str) -> dict[str, str]:
    return {"type": "reasoning", "text": text}


def says(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def message(name: str, *blocks: dict[str, str], parent: str | None = None, event_type: str = "message") -> None:
    part = {} if parent is None else {"parent_tool_call_id": parent}
    speaker.say(event_type, message_id=name, role="assistant", content=list(blocks), **part)


def piece(name: str, block: dict[str, str], parent: str | None = None) -> None:
    message(name, block, parent=parent, event_type="message_delta")


def begin(call: str, tool: str, tool_input: Any, parent: str | None = None) -> None:
    part = {} if parent is None else {"parent_tool_call_id": parent}
    speaker.say("tool_started", tool_call_id=call, tool_name=tool, tool_input=tool_input, **part)


def end(call: str, tool: str, output: Any) -> None:
    speaker.say("tool_finished", tool_call_id=call, tool_name=tool, status="completed", tool_output=output)


def wait_for(name: str) -> None:
    folder = speaker.invocation["parameters"]["prompt"]
    while folder.startswith("/") and not Path(folder, name).exists():
        time.sleep(0.05)


speaker.start()
for word in ("The user wants two counts. ", "They do not depend on each other, ", "so I ask two sub-agents.\n"):
    piece("m1", thinks(word))
wait_for("thought")
message("m1", thinks("The user wants two counts. They do not depend on each other, so I ask two sub-agents.\n"))
message("m2", thinks("One for the words."), says("I ask two sub-agents."))
begin("a", "Task", {"description": "Count the words"})
begin("a1", "Read", {"path": "a.txt"}, parent="a")
end("a1", "Read", "one two three")
begin("b", "Task", {"description": "Count the lines"})
message("m3", thinks("A file may end without a line feed.\nThen I add one."), parent="b")
begin("a2", "Task", {"description": "Check the count"}, parent="a")
message("m4", says("There are three words."), parent="a2")
begin("a3", "Bash", {"command": "wc -w a.txt"}, parent="a2")
message("m5", OTHER, parent="a2")
for first, second in (("Words: ", "Lines: "), ("one, ", "the first, "), ("two", "the second")):
    piece("m6", says(first), parent="a")
    piece("m7", thinks(second), parent="b")
piece("m8", OTHER)
wait_for("done")
message("m6", says("Words: one, two, three"), parent="a")
message("m7", thinks("Lines: the first, the second"), says("Two lines."), parent="b")
end("a3", "Bash", "3 a.txt")
end("a2", "Task", "three")
end("a", "Task", "three")
end("b", "Task", "two")
message("m9", thinks("Both have answered."), says("Three words in two lines."))
speaker.result("Three words in two lines.")

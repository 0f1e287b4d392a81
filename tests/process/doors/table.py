"""The table: requests for runs in no door's words, and what becomes of each at every door.

A request names only what it sets. `@` stands for the folder of a door, in which the agents' files are. An accepted
request has the row of the store that it leaves; columns that are not named are those of `USUAL`. A refused one has the
place of what is wrong, and words of the refusal.

A new field of a run needs a row in `FIELDS`, its usual value in `USUAL`, and a request that sets it. Then
`test_counting.py` names each door that neither spells it nor says why it lacks it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FIELDS: Final = {
    "agent": "The name of an agent of `AGENTS`; None for a model with a prompt.",
    "parameters": "What the agent is given.",
    "session": "The session to continue, one of `SESSIONS`; without it a session begins.",
    "session_id": "The id of the new session.",
    "run_id": "The id of the run.",
    "project_dir": "The folder that the agent works in.",
    "profile": "The profile or executor that performs the run.",
    "executor_config": "Settings of the executor.",
    "output_schema": "The schema of the answer.",
    "output_schema_name": "The name of a stored schema of the answer.",
    "output_schema_options": "How the schema is enforced.",
    "no_schema": "Free text, although the agent has a default schema.",
    "keep_rejected": "Whether rejected answers are stored.",
    "timeout_seconds": "The most that the run may take.",
    "priority": "Which run is claimed first.",
    "not_before": "The earliest time of a claim.",
    "requeue": "Whether a copy is queued at the reset of a usage limit.",
    "metadata": "Facts for the executor.",
    "labels": "Short texts by name, by which people find runs.",
    "attachments": "Files beside the prompt.",
    "requires": "Tags that the worker must offer.",
    "parent_session_id": "The session that asks.",
    "execution_mode": "How that session learns of the end.",
    "model_script": "Answers instead of a model.",
}
"""All that a run can be asked with."""

AGENTS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"name": "plain"},
    "writer": {
        "name": "writer",
        "description": "Writes about a topic.",
        "parameters_schema": {
            "type": "object",
            "required": ["topic"],
            "properties": {"topic": {"type": "string"}, "words": {"type": "integer"}},
        },
    },
    "free": {"name": "free", "default_output_schema": {"type": "array"}},
    "fixed": {"name": "fixed", "output_schema": {"type": "object"}},
    "script": {"name": "script", "type": "procedural", "command": "true", "parameters_schema": {"type": "object"}},
}
NO_AGENT: Final = {"name": "assistant"}
NAMED: Final[dict[str, dict[str, Any]]] = {
    "graded": {"type": "object", "required": ["grade"], "properties": {"grade": {"type": "integer"}}}
}
"""The stored schemas."""
SESSIONS: Final = {"ses_plain": "plain", "ses_writer": "writer", "ses_free": "free", "ses_fixed": "fixed"}
"""The stored sessions, which an executor has bound, with their agents."""
KEPT: Final[dict[str, Any]] = {"kept": [1]}
"""The settings of the stored sessions."""
UNBOUND: Final = "ses_unbound"
SIMULATED: Final = "ses_simulated"
PARENT: Final = "ses_parent"

HI: Final = {"prompt": "Hi"}
SCRIPT: Final = '{"answers": [{"text": "Done."}]}'
TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LONG_AGO: Final = "2020-01-31T08:00:00.000Z"
COMMON: Final[dict[str, Any]] = {
    "model": "m-1",
    "reasoning_effort": "low",
    "show_reasoning": False,
    "access": "edit",
    "allowed_tools": ["Read", "Bash(git *)"],
}
"""Settings with one meaning in every executor."""
NOTE: Final = {"name": "note.txt", "media_type": "text/plain", "path": "@/work/note.txt"}
"""A file beside the agents."""
DOT: Final = {"name": "dot.png", "media_type": "image/png", "data": "iVBORw0KGgo="}
"""Bytes."""


def nested(levels: int) -> Any:
    """Return a list in a list, and so on."""
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


USUAL: Final[dict[str, Any]] = {
    "agent_name": "plain",
    "blueprint": AGENTS["plain"],
    "project_dir": "@/work",
    "executor_config": {},
    "session_profile": "teller",
    "session_parent": None,
    "is_simulated": 0,
    "mode": "start",
    "parameters": HI,
    "contract": None,
    "profile": "teller",
    "timeout_seconds": None,
    "metadata": {},
    "labels": {},
    "attachments": [],
    "model_script": None,
    "requires": [],
    "priority": 0,
    "not_before": None,
    "requeue": 0,
    "parent_session_id": None,
    "execution_mode": "sync",
    "input_responses": None,
}
"""The row of a request that says no more than the agent `plain`, the profile `teller` and a prompt.

The profile of the session is `session_profile`, and the session that began it `session_parent`. No execution mode is
stored as `sync`, and as nothing: both say that nobody is told of the end.
"""


def of_agent(name: str) -> dict[str, Any]:
    """Return the columns that a start of an agent differs in."""
    return {"agent_name": name, "blueprint": AGENTS[name]}


def of_session(name: str = "ses_plain", **more: Any) -> dict[str, Any]:
    """Return the columns that a further run of a stored session differs in."""
    return {**of_agent(SESSIONS.get(name, "plain")), "mode": "resume", "executor_config": KEPT, **more}


@dataclass(frozen=True)
class Accepted:
    """A request that every door accepts. `row` has the columns that differ from `USUAL`."""

    asked: Mapping[str, Any]
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """A request that every door refuses, with nothing stored.

    Args:
        asked: The request.
        at: The path of what is wrong, which begins with one of `FIELDS`.
        words: A regular expression that the refusal contains.
        value: A regular expression for the value that is wrong, where it says as much as the path.
        is_of_the_run: Whether a run that is performed at once refuses it itself, by its terminal event.
    """

    asked: Mapping[str, Any]
    at: str
    words: str
    value: str | None = None
    is_of_the_run: bool = False


def start(agent: str = "plain", parameters: Any = None, **more: Any) -> dict[str, Any]:
    """Return a request for a new session of an agent."""
    return {"agent": agent, "parameters": HI if parameters is None else parameters, "profile": "teller", **more}


def resume(session: str = "ses_plain", parameters: Any = None, **more: Any) -> dict[str, Any]:
    """Return a request for a further run of a session."""
    return {"session": session, "parameters": HI if parameters is None else parameters, **more}


def inline(schema: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the stored demand of a caller with a schema."""
    return {"source": "inline", "schema": schema, "options": options}


ODD_TEXT: Final = "a\0b \u001b[2K \u202eé \U0001f600 \ufdd0\n"
OBJECT: Final = {"type": "object"}
UNFIT: Final = {"type": "text"}

ACCEPTED: Final[dict[str, Accepted]] = {
    "a prompt": Accepted(start()),
    "no agent": Accepted(
        {"agent": None, "parameters": HI, "profile": "teller"}, {"agent_name": "assistant", "blueprint": NO_AGENT}
    ),
    "no profile": Accepted(
        {"agent": "plain", "parameters": HI}, {"profile": "claude-code", "session_profile": "claude-code"}
    ),
    "parameters of a schema": Accepted(
        start("writer", {"topic": "bees", "words": 5}),
        {**of_agent("writer"), "parameters": {"topic": "bees", "words": 5}},
    ),
    "a prompt of odd characters": Accepted(
        start(parameters={"prompt": ODD_TEXT}), {"parameters": {"prompt": ODD_TEXT}}
    ),
    "numbers at their limits": Accepted(
        start("writer", {"topic": "n", "words": 2**53 - 1, "least": 1 - 2**53, "tenth": 0.1}),
        {**of_agent("writer"), "parameters": {"topic": "n", "words": 2**53 - 1, "least": 1 - 2**53, "tenth": 0.1}},
    ),
    "parameters of 60 levels": Accepted(
        start("writer", {"topic": "deep", "deep": nested(60)}),
        {**of_agent("writer"), "parameters": {"topic": "deep", "deep": nested(60)}},
    ),
    "a procedural agent": Accepted(
        start("script", {"any": [None, True, ""]}),
        {**of_agent("script"), "parameters": {"any": [None, True, ""]}, "executor_config": {"commands_dir": "@/work"}},
    ),
    "a folder": Accepted(start(project_dir="@/other"), {"project_dir": "@/other"}),
    "settings of the executor": Accepted(
        start(executor_config={"note": "blue", "list": [1, {"a": None}]}),
        {"executor_config": {"note": "blue", "list": [1, {"a": None}]}},
    ),
    "common settings": Accepted(start(executor_config=COMMON), {"executor_config": COMMON}),
    "a schema": Accepted(start(output_schema=OBJECT), {"contract": inline(OBJECT)}),
    "a schema with options": Accepted(
        start(
            output_schema=OBJECT, output_schema_options={"max_retries": 1, "strategy": "extract", "ambiguous": "refuse"}
        ),
        {"contract": inline(OBJECT, max_retries=1, strategy="extract", ambiguous="refuse")},
    ),
    "a named schema": Accepted(
        start(output_schema_name="graded"),
        {"contract": {"source": "named", "schema_name": "graded", "schema": NAMED["graded"], "options": {}}},
    ),
    "the agent's default schema": Accepted(
        start("free"),
        {**of_agent("free"), "contract": {"source": "default", "schema": {"type": "array"}, "options": {}}},
    ),
    "options of the default schema": Accepted(
        start("free", output_schema_options={"max_retries": 1}),
        {
            **of_agent("free"),
            "contract": {"source": "default", "schema": {"type": "array"}, "options": {"max_retries": 1}},
        },
    ),
    "another schema than the default": Accepted(
        start("free", output_schema=OBJECT), {**of_agent("free"), "contract": inline(OBJECT)}
    ),
    "no schema": Accepted(start("free", no_schema=True), {**of_agent("free"), "contract": {"source": "none"}}),
    "no rejected answers": Accepted(start(keep_rejected=False), {"contract": {"keep_rejected": False}}),
    "no rejected answers of a schema": Accepted(
        start(output_schema=OBJECT, keep_rejected=False), {"contract": {**inline(OBJECT), "keep_rejected": False}}
    ),
    "a time": Accepted(start(timeout_seconds=75.5), {"timeout_seconds": 75.5}),
    "a place in the queue": Accepted(
        start(priority=1000, not_before=LONG_AGO), {"priority": 1000, "not_before": LONG_AGO}
    ),
    "the last place in the queue": Accepted(start(priority=-1000), {"priority": -1000}),
    "tags": Accepted(start(requires=["gpu", "host:here"]), {"requires": ["gpu", "host:here"]}),
    "a copy at the reset": Accepted(start(requeue=True), {"requeue": 1}),
    "a trace": Accepted(start(metadata={"traceparent": TRACE}), {"metadata": {"traceparent": TRACE}}),
    "metadata": Accepted(
        start(metadata={"ticket": {"id": 7, "note": ODD_TEXT}}), {"metadata": {"ticket": {"id": 7, "note": ODD_TEXT}}}
    ),
    "labels": Accepted(
        start(labels={"team": "docs", "area/x": "a=b \U0001f600"}),
        {"labels": {"team": "docs", "area/x": "a=b \U0001f600"}},
    ),
    "a file": Accepted(start(attachments=[NOTE]), {"attachments": [NOTE]}),
    "several files": Accepted(
        start("writer", {"topic": "bees"}, attachments=[NOTE, {**NOTE, "media_type": "text/markdown"}]),
        {
            **of_agent("writer"),
            "parameters": {"topic": "bees"},
            "attachments": [NOTE, {**NOTE, "media_type": "text/markdown"}],
        },
    ),
    "bytes": Accepted(start(attachments=[DOT]), {"attachments": [DOT]}),
    "a parent": Accepted(
        start(parent_session_id=PARENT, execution_mode="async_callback"),
        {"parent_session_id": PARENT, "session_parent": PARENT, "execution_mode": "async_callback"},
    ),
    "asks for the status": Accepted(start(execution_mode="async_poll"), {"execution_mode": "async_poll"}),
    "a session id of the caller": Accepted(start(session_id="../a b%2F?")),
    "ids of the caller": Accepted(start(session_id="ses/ö", run_id="run ö")),
    "a simulated model": Accepted(start(model_script=SCRIPT), {"model_script": SCRIPT, "is_simulated": 1}),
    "all of the queue": Accepted(
        start(
            "free",
            no_schema=True,
            keep_rejected=False,
            timeout_seconds=9,
            priority=1,
            not_before=LONG_AGO,
            requeue=True,
            metadata={"traceparent": TRACE},
            requires=["gpu"],
        ),
        {
            **of_agent("free"),
            "contract": {"source": "none", "keep_rejected": False},
            "timeout_seconds": 9.0,
            "priority": 1,
            "not_before": LONG_AGO,
            "requeue": 1,
            "metadata": {"traceparent": TRACE},
            "requires": ["gpu"],
        },
    ),
    "a further prompt": Accepted(resume(), of_session()),
    "a further prompt of odd characters": Accepted(
        resume(parameters={"prompt": ODD_TEXT}), of_session(parameters={"prompt": ODD_TEXT})
    ),
    "a further run of an agent with parameters": Accepted(resume("ses_writer"), of_session("ses_writer")),
    "a further run with another profile": Accepted(
        resume(profile="other"), of_session(profile="other", session_profile="teller")
    ),
    "a further run with a schema": Accepted(
        resume(output_schema=OBJECT, output_schema_options={"max_retries": 1}),
        of_session(contract=inline(OBJECT, max_retries=1)),
    ),
    "a further run with a named schema": Accepted(
        resume(output_schema_name="graded"),
        of_session(contract={"source": "named", "schema_name": "graded", "schema": NAMED["graded"], "options": {}}),
    ),
    "a further run without a schema": Accepted(
        resume("ses_free", no_schema=True), of_session("ses_free", contract={"source": "none"})
    ),
    "a further run with a time": Accepted(
        resume(timeout_seconds=7, keep_rejected=False),
        of_session(timeout_seconds=7.0, contract={"keep_rejected": False}),
    ),
    "a further run with a place in the queue": Accepted(
        resume(priority=-3, not_before=LONG_AGO, requeue=True, requires=["gpu"]),
        of_session(priority=-3, not_before=LONG_AGO, requeue=1, requires=["gpu"]),
    ),
    "a further run with metadata": Accepted(resume(metadata={"a": 1}), of_session(metadata={"a": 1})),
    "a further run with labels": Accepted(resume(labels={"team": "docs"}), of_session(labels={"team": "docs"})),
    "a further run with a file": Accepted(resume(attachments=[NOTE]), of_session(attachments=[NOTE])),
    "a further run with bytes": Accepted(resume(attachments=[DOT]), of_session(attachments=[DOT])),
    "a further run with a simulated model": Accepted(
        resume(SIMULATED, model_script=SCRIPT), of_session(SIMULATED, model_script=SCRIPT, is_simulated=1)
    ),
    "a further run for a parent": Accepted(
        resume("ses_writer", parent_session_id=PARENT, execution_mode="async_callback"),
        of_session("ses_writer", parent_session_id=PARENT, session_parent=PARENT, execution_mode="async_callback"),
    ),
}

ANSWERED: Final = of_session(parameters={}, input_responses=[{"request_id": "ask_0", "option_id": "deny"}])
"""The row of a run that an answer has queued: nobody can ask for it otherwise."""

NO_TEXT: Final = "half a surrogate pair"
NO_TYPE: Final = r"text\W+is not one of"
REFUSED: Final[dict[str, Refused]] = {
    "an unknown agent": Refused(start("nobody"), "agent", "not found|not exist|No such", "nobody"),
    "an unknown profile": Refused(start(profile="no-such"), "profile", "no profile or executor is called", "no-such"),
    "parameters that do not fit": Refused(
        start("writer"), "parameters", r"topic\W+is a required property", is_of_the_run=True
    ),
    "a parameter of another type": Refused(
        start("writer", {"topic": "bees", "words": "many"}),
        "parameters.words", r"many\W+is not of type \W+integer", is_of_the_run=True,
    ),
    "no prompt": Refused(
        start(parameters={"a": 1}), "parameters", r"prompt\W+is a required property", is_of_the_run=True
    ),
    "an empty prompt": Refused(
        start(parameters={"prompt": ""}), "parameters.prompt", "should be non-empty", is_of_the_run=True
    ),
    "a prompt that is a number": Refused(
        start(parameters={"prompt": 1}), "parameters.prompt", r"1 is not of type \W+string", is_of_the_run=True
    ),
    "parameters that are a list": Refused(
        start(parameters=[1]), "parameters", "expected an object|valid dictionary|valid object", "list"
    ),
    "half a surrogate pair": Refused(start(parameters={"prompt": "\ud800"}), "parameters.prompt", NO_TEXT),
    "a name that is half a surrogate pair": Refused(
        start("writer", {"topic": "bees", "\udfff": 1}), "parameters", NO_TEXT
    ),
    "no number": Refused(
        start("writer", {"topic": "bees", "words": float("nan")}), "parameters.words", "(?i)nan is not (a )?JSON"
    ),
    "a number that is too large": Refused(
        start("writer", {"topic": "bees", "words": 2**53}), "parameters.words", "is outside"
    ),
    "parameters of 62 levels": Refused(
        start("writer", {"topic": "deep", "deep": nested(62)}), "parameters.deep[0][0]", "nested deeper than"
    ),
    "a schema that is none": Refused(start(output_schema=UNFIT), "output_schema.type", NO_TYPE),
    "an unknown named schema": Refused(
        start(output_schema_name="none"), "output_schema_name", "there is no schema", "'none'"
    ),
    "two schemas": Refused(
        start(output_schema=OBJECT, output_schema_name="graded"), "output_schema_name", "(?i)contradict|use either"
    ),
    "an unknown option": Refused(
        start(output_schema=OBJECT, output_schema_options={"retries": 1}),
        "output_schema_options.retries", "is not known; known are",
    ),
    "options without a schema": Refused(
        start(output_schema_options={"max_retries": 1}),
        "output_schema_options", "needs? an output schema, and there is none",
    ),
    "another schema than the agent's": Refused(
        start("fixed", output_schema={"type": "array"}), "output_schema", "cannot replace the agent's output_schema"
    ),
    "options of the agent's schema": Refused(
        start("fixed", output_schema_options={"max_retries": 0}),
        "output_schema_options", "cannot replace the agent's output_schema",
    ),
    "free text of an agent with a schema": Refused(
        start("fixed", no_schema=True), "no_schema", "the agent's designer demands a schema"
    ),
    "no schema and a schema": Refused(
        start("free", no_schema=True, output_schema=OBJECT), "no_schema", "asks for free text"
    ),
    "a negative time": Refused(start(timeout_seconds=-1), "timeout_seconds", "greater than 0|at least 0.001 s"),
    "no time": Refused(start(timeout_seconds=0), "timeout_seconds", "greater than 0|at least 0.001 s"),
    "a time that is a word": Refused(
        start(timeout_seconds="soon"), "timeout_seconds", "expected a (duration|valid number)"
    ),
    "a time without end": Refused(start(timeout_seconds=float("inf")), "timeout_seconds", "(?i)finite|inf|too large"),
    "a priority that is too high": Refused(start(priority=1001), "priority", "1000"),
    "a tag with a space": Refused(start(requires=["a b"]), "requires", "expected letters, digits", "'a b'"),
    "a label with a space in its name": Refused(start(labels={"a b": "c"}), "labels", "a name of letters", "a b"),
    "an empty label": Refused(start(labels={"team": ""}), "labels.team", "a text of 1 to 200 characters"),
    "a file that is not there": Refused(
        start(attachments=[{**NOTE, "path": "@/gone.txt"}]), "attachments", "cannot be read|not exist", "gone.txt"
    ),
    "a file of no media type": Refused(
        start(attachments=[{**NOTE, "media_type": "text/pl ain"}]), "attachments", "media type|match pattern", "pl ain"
    ),
    "an attachment without a place": Refused(
        start(attachments=[{"name": "a", "media_type": "text/plain"}]), "attachments", "expected either path or data"
    ),
    "too many files": Refused(start(attachments=[NOTE] * 33), "attachments", "at most 32"),
    "a start that is no time": Refused(
        start(not_before="soon"), "not_before", "expected a time such as|valid datetime"
    ),
    "a folder that is not there": Refused(
        start(project_dir="@/gone"), "project_dir", "(?i)does not exist|not (point to )?a directory", "@/gone"
    ),
    "an unknown mode": Refused(
        start(execution_mode="later"), "execution_mode", "(?i)'?sync'?, '?async_poll'?(,| or) '?async_callback'?"
    ),
    "an unknown parent": Refused(
        start(parent_session_id="ses_none"), "parent_session_id", "not found|there is no session", "'ses_none'"
    ),
    "a session id with NUL": Refused(start(session_id="a\0b"), "session_id", r"found U\+0000 at character 1"),
    "a session id that is too long": Refused(start(session_id="x" * 513), "session_id", "found 513 characters"),
    "a run id with a line end": Refused(start(run_id="a\nb"), "run_id", r"found U\+000A at character 1"),
    "a session id that is taken": Refused(start(session_id="ses_plain"), "session_id", "already exists", "'ses_plain'"),
    "an unknown session": Refused(resume("ses_none"), "session", "(?i)there is no session|not found", "'ses_none'"),
    "a session that cannot be resumed": Refused(resume(UNBOUND), "session", "never announced a session id", UNBOUND),
    "a simulated session without a script": Refused(
        resume(SIMULATED), "session", "was created with a model script", SIMULATED
    ),
    "a script for a real session": Refused(
        resume(model_script=SCRIPT), "model_script", "was created with a real model", "ses_plain"
    ),
    "an empty further prompt": Refused(
        resume(parameters={"prompt": ""}), "parameters.prompt", "should be non-empty", is_of_the_run=True
    ),
    "a further schema that is none": Refused(resume(output_schema=UNFIT), "output_schema.type", NO_TYPE),
    "another further schema than the agent's": Refused(
        resume("ses_fixed", output_schema={"type": "array"}),
        "output_schema", "cannot replace the agent's output_schema",
    ),
    "a further run by an unknown profile": Refused(
        resume(profile="no-such"), "profile", "no profile or executor is called", "no-such"
    ),
    "a negative time of a further run": Refused(
        resume(timeout_seconds=-1), "timeout_seconds", "greater than 0|at least 0.001 s"
    ),
}  # fmt: skip

REQUESTS: Final[dict[str, Accepted | Refused]] = {**ACCEPTED, **REFUSED}

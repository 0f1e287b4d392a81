"""What is known to differ today. Each row is expected to fail, so that it has to go when the difference goes."""

from typing import Final

NOT_THERE: Final = "the door has no such field"
IGNORED: Final = "the door ignores the field"

GAPS: Final[dict[str, dict[str, str]]] = {
    "run": {"no_schema": NOT_THERE, "metadata": NOT_THERE},
    "resume": {"profile": NOT_THERE, "metadata": NOT_THERE},
    "submit": {"no_schema": "only a further run can ask for no schema"},
    "api": dict.fromkeys(("executor_config", "no_schema", "keep_rejected", "not_before", "requeue"), NOT_THERE),
    "mcp": dict.fromkeys(("no_schema", "keep_rejected", "timeout_seconds"), IGNORED),
    "agent": dict.fromkeys(("no_schema", "keep_rejected", "metadata", "output_schema_options"), NOT_THERE),
    "pipe": {
        **dict.fromkeys(("output_schema_name", "no_schema"), IGNORED),
        "executor_config": "the settings are those of the worker's profile",
    },
}
GAPS["batch"] = GAPS["leased"] = GAPS["api"]
"""By door: the fields that it ought to take, and does not."""

STORED: Final = "the run is stored and fails, instead of being refused"
OTHER_WORDS: Final = "the refusal has other words"
NO_PLACE: Final = "the refusal does not say where"
ACCEPTED: Final = "it is accepted"
NOTHING: Final = ""
"""Nothing is wrong, although the request is about a gap: no text of JSON holds it."""
PERFORMED: Final = (
    "parameters that do not fit", "a parameter of another type", "no prompt", "an empty prompt",
    "a prompt that is a number",
)  # fmt: skip
"""What a run that is performed at once checks only when it has been stored."""

KNOWN: Final[dict[tuple[str, str], str]] = {
    **{("run", name): STORED for name in PERFORMED},
    **{("agent", name): STORED for name in (*PERFORMED, "a folder that is not there")},
    **{
        ("agent", name): "the run is stored as lost, and the error is that of a model of the invocation"
        for name in ("a negative time", "no time", "a time that is a word", "a time without end")
    },
    ("agent", "parameters that are a list"): "a TypeError without a place",
    ("submit", "metadata"): "only a trace can be passed on",
    ("submit_session", "a further run with metadata"): "only a trace can be passed on",
    ("resume", "an empty further prompt"): OTHER_WORDS,
    ("submit_session", "an empty further prompt"): OTHER_WORDS,
    ("resume_page", "an empty further prompt"): OTHER_WORDS,
    ("api", "a tag with a space"): "the refusal is a regular expression",
    ("batch", "a tag with a space"): "the refusal is a regular expression",
    ("pipe", "a procedural agent"): "its commands are not looked for beside its file",
    ("pipe", "no number"): NO_PLACE,
    ("pipe", "a number that is too large"): NO_PLACE,
    ("pipe", "a time without end"): NO_PLACE,
    ("pipe", "a session id that is too long"): OTHER_WORDS,
    ("pipe", "options without a schema"): ACCEPTED,
    ("pipe", "another schema than the agent's"): ACCEPTED,
    ("mcp", "a time without end"): NOTHING,
    ("foreign", "no agent"): "the agent has the name of the worker's profile",
    ("foreign", "the agent's default schema"): "the run has no demand, and the executor reads that of the blueprint",
    ("foreign", "a session id with NUL"): ACCEPTED,
    ("foreign", "a run id with a line end"): ACCEPTED,
    ("foreign", "a session id that is too long"): OTHER_WORDS,
}
"""By door and request: what else is wrong."""

UNCOPIED: Final[dict[tuple[str, str], str]] = {
    ("again", "an answer"): "the answers are lost, and without them a prompt is missing",
    ("again", "a further run with a simulated model"): "the script is lost, and without it the session is refused",
}
"""By copy and request: runs that cannot be copied."""

LOST: Final = "*run again* asks the server anew, by a request without this field"
COPIES: Final[dict[tuple[str, str], str]] = {
    ("again", "executor_config"): "the settings are those of the agent as it is now, also where the caller gave some",
    ("again", "contract"): "only inline and named schemas are asked for again; `none` and `keep_rejected` are lost",
    ("again", "timeout_seconds"): LOST,
    ("again", "metadata"): LOST,
    ("again", "execution_mode"): LOST,
    ("again", "requeue"): LOST,
    ("again", "model_script"): LOST,
    ("again", "is_simulated"): LOST,
    ("requeue", "input_responses"): "`_COPIED_OF_RUN` lacks the column, so that the copy resumes without a prompt",
    ("continuation", "requeue"): "`find_queued` does not read the column",
}
"""By copy and column: what a copy loses."""

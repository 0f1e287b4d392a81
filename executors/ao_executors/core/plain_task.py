"""The short way to a task: an invocation that plainly asks a prompt, and leaves nothing to check by a schema.

It imports neither models nor schemas, which cost more time than the rest of such a run. Whatever is not plain here
goes the long way, `prepare`, and comes to the same task.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.project_dir import find_project_dir
from ao_executors.core.task import Task
from ao_executors.core.terms import terms_from
from ao_protocol.prompt_only import asks_a_prompt_alone, takes_an_empty_config

if TYPE_CHECKING:
    from ao_protocol.documents import Invocation


def plain_task(executor: Executor, document: dict[str, Any], events: Emitter) -> Task | None:
    """Return the task of an invocation, or None where `prepare` has to judge it."""
    if not asks_a_prompt_alone(document):
        return None
    blueprint, folder = document.get("agent_blueprint") or {}, find_project_dir(document.get("project_dir"))
    is_served = blueprint.get("type", "autonomous") in executor.agent_types
    config_schema = executor.description.get("config_schema", {"type": "object"})
    if not is_served or not takes_an_empty_config(config_schema) or folder is None:
        return None
    terms = terms_from(document["schema_version"], document.get("limits") or {}, document.get("control") or {})
    events.max_event_bytes = terms.max_event_bytes or events.max_event_bytes
    return Task(
        terms=terms,
        system_prompt=blueprint.get("system_prompt"),
        contract=None,
        config={},
        project_dir=folder,
        read_invocation=_reader(document),
        text=document.get("prompt") or document["parameters"]["prompt"],
        events=events,
    )


def _reader(document: dict[str, Any]) -> "Callable[[], Invocation]":
    @cache
    def read() -> "Invocation":
        from ao_protocol.documents import invocation_from_document

        return invocation_from_document(document)

    return read

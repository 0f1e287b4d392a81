"""The store of sessions, runs, events and named schemas. It stores and finds data, and decides nothing.

Commands and coordinators use only the public methods of the parts of `Store`, and those of `Engine`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from ao_runner.store.engine import Engine, Part
from ao_runner.store.event_table import EventTable
from ao_runner.store.run_table import RunTable
from ao_runner.store.session_table import SessionTable

if TYPE_CHECKING:
    from ao_runner.store.action_table import ActionTable
    from ao_runner.store.agent_table import AgentTable, AnswerTable
    from ao_runner.store.deletions import Deletions
    from ao_runner.store.deliveries import DeliveryTable, WebhookTable
    from ao_runner.store.failure_table import FailureTable
    from ao_runner.store.input_table import InputTable
    from ao_runner.store.limit_table import LimitTable
    from ao_runner.store.notices import NoticeTable
    from ao_runner.store.run_figures import RunFigures
    from ao_runner.store.run_queue import RunQueue
    from ao_runner.store.schema_table import SchemaTable
    from ao_runner.store.worker_table import WorkerTable

SomePart = TypeVar("SomePart", bound=Part)


class LatePart(Generic[SomePart]):
    """A part, the class `name` in a module of this package, made of the parts that it needs.

    It is imported and made when it is first used: a run is started without most of them.
    """

    def __init__(self, module: str, name: str, *needs: str) -> None:
        self._module, self._name, self._needs = module, name, needs

    def __set_name__(self, _: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, store: "Store", _: type) -> SomePart:
        kind: type[SomePart] = getattr(import_module(f"ao_runner.store.{self._module}"), self._name)
        return store.__dict__.setdefault(self._attribute, kind(store, *(getattr(store, need) for need in self._needs)))  # type: ignore[no-any-return]


class Store(Engine):
    """One database: an engine, and a part for each subject, which holds the queries about it."""

    workers: "LatePart[WorkerTable]"
    webhooks: "LatePart[WebhookTable]" = LatePart("deliveries", "WebhookTable")
    notices: "LatePart[NoticeTable]" = LatePart("notices", "NoticeTable")
    deliveries: "LatePart[DeliveryTable]" = LatePart("deliveries", "DeliveryTable", "webhooks", "notices")
    deletions: "LatePart[Deletions]" = LatePart("deletions", "Deletions", "deliveries")
    limits: "LatePart[LimitTable]" = LatePart("limit_table", "LimitTable")
    queue: "LatePart[RunQueue]" = LatePart("run_queue", "RunQueue", "runs", "limits", "workers")
    inputs: "LatePart[InputTable]" = LatePart("input_table", "InputTable")
    agents: "LatePart[AgentTable]" = LatePart("agent_table", "AgentTable")
    answers: "LatePart[AnswerTable]" = LatePart("agent_table", "AnswerTable")
    schemas: "LatePart[SchemaTable]" = LatePart("schema_table", "SchemaTable")
    actions: "LatePart[ActionTable]" = LatePart("action_table", "ActionTable")
    failures: "LatePart[FailureTable]" = LatePart("failure_table", "FailureTable")
    figures: "LatePart[RunFigures]" = LatePart("run_figures", "RunFigures")

    def __init__(self, events: type[EventTable]) -> None:
        """Make the parts that every run needs, of which one has queries of its own for each engine."""
        self.sessions = SessionTable(self)
        self.runs = RunTable(self, self.sessions)
        self.events = events(self, self.runs)

"""The store of sessions, runs, events and named schemas. It stores and finds data, and decides nothing.

Commands and coordinators use only the public methods of the parts of `Store`, and those of `Engine`.
"""

from ao_runner.store.action_table import ActionTable
from ao_runner.store.agent_table import AgentTable, AnswerTable
from ao_runner.store.deliveries import DeliveryTable, WebhookTable
from ao_runner.store.engine import Engine
from ao_runner.store.event_table import EventTable
from ao_runner.store.failure_table import FailureTable
from ao_runner.store.input_table import InputTable
from ao_runner.store.limit_table import LimitTable
from ao_runner.store.notices import NoticeTable
from ao_runner.store.run_figures import RunFigures
from ao_runner.store.run_queue import RunQueue
from ao_runner.store.run_table import RunTable
from ao_runner.store.schema_table import SchemaTable
from ao_runner.store.session_table import SessionTable
from ao_runner.store.worker_table import WorkerTable


class Store(Engine):
    """One database: an engine, and a part for each subject, which holds the queries about it."""

    def __init__(self, events: type[EventTable], workers: type[WorkerTable]) -> None:
        """Make the parts, of which two have queries of their own for each engine."""
        self.webhooks = WebhookTable(self)
        self.notices = NoticeTable(self)
        self.deliveries = DeliveryTable(self, self.webhooks, self.notices)
        self.sessions = SessionTable(self, self.deliveries)
        self.runs = RunTable(self, self.sessions)
        self.events = events(self, self.runs)
        self.workers = workers(self, self.runs)
        self.limits = LimitTable(self)
        self.queue = RunQueue(self, self.runs, self.limits, self.workers)
        self.inputs = InputTable(self)
        self.agents = AgentTable(self)
        self.answers = AnswerTable(self)
        self.schemas = SchemaTable(self)
        self.actions = ActionTable(self)
        self.failures = FailureTable(self)
        self.figures = RunFigures(self)

"""Many executors under one selector in one thread."""

import selectors
from contextlib import ExitStack
from pathlib import Path

from ao_protocol.events import ExecutorIdentity, Result
from ao_protocol.framing import encode_line
from ao_runner.conversation import Conversation, RunIdentity
from ao_runner.journal import timestamp
from ao_runner.locate import Executor
from ao_runner.order import RunOrder, invocation_of
from ao_runner.records import Run, Session
from ao_runner.spawn import Child
from ao_runner.supervision import Supervision
from tests.runner.performing import MINIATURES, PATIENT, processes_in

MANY = 30


def test_one_thread_supervises_many_runs(tmp_path: Path) -> None:
    executor = Executor("answers", MINIATURES / "answers_at_once.py")
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        supervisions = []
        for number in range(MANY):
            session = Session(f"ses_{number}", "now", executor.name, str(executor.path), str(tmp_path), {"name": "a"})
            run = Run(f"run_{number}", session.session_id, "start", {"prompt": f"number {number}"}, "now")
            identity = RunIdentity(run.run_id, session.session_id, ExecutorIdentity(name="x", version="1"))
            child = stack.enter_context(Child([str(executor.path)], environ, tmp_path))
            supervision = Supervision(child, Conversation(identity, 1024 * 1024, timestamp), selector)
            supervision.begin(encode_line(invocation_of(RunOrder(session, run, executor, environ, graces=PATIENT))))
            supervisions.append(supervision)
        while not all(supervision.is_over for supervision in supervisions):
            for key, _ in selector.select(60):
                list(key.data())
        assert not selector.get_map()

    answers = [supervision.conversation.terminal for supervision in supervisions]
    assert [answer.result_text for answer in answers if isinstance(answer, Result)] == [
        f"number {number}" for number in range(MANY)
    ]
    assert processes_in(tmp_path) == []

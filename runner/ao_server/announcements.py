"""Announces the ends of runs, once each, and resumes the parents that wait for one: at most one resume at a time.

All state is in the store, and each step is one transaction. So it goes on after a crash, and several servers share it.
"""

from contextlib import suppress
from functools import partial

from fastapi import HTTPException

from ao_protocol.callbacks import STOPPED, ChildEnd, callback_prompt, text_of_result
from ao_protocol.events import Failure, Result
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.runs.submission import NewRun, enqueue
from ao_runner.store.records import RunState, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import StoreUnusable, StoreUnwritable
from ao_server.context import ServerContext
from ao_server.joined_workers import tell
from ao_server.shapes import terminal_of
from ao_server.submission import ServerSettings, accepted


async def announce_ends(context: ServerContext) -> None:
    """Announce the ends of runs, until it is cancelled."""
    async for _ in context.access.rounds():
        with suppress(RunnerError):  # it tries again, and requests report the error
            await _announce(context)


async def _announce(context: ServerContext) -> None:
    access = context.access
    while await access.read(lambda store: store.deliveries.unannounced_ends()) and await access.write(
        lambda store: store.deliveries.announce_ends(timestamp(store.now())) > 0
    ):
        access.wakeup.notify()  # the senders to webhooks
    for parent in await access.read(lambda store: store.deliveries.parents_to_resume()):
        if await access.write_alone(partial(resume_parent, parent=parent, settings=context.settings)):
            access.notify()


def resume_parent(store: Store, parent: str, settings: ServerSettings) -> bool:
    """Queue a run that tells a parent of the ends of its children, if its turn has completed; return whether it did.

    If the parent cannot be resumed, the callbacks are given up, with the reason.
    """
    with store.transaction():
        run_ids = store.deliveries.hold_waiting(parent)
        if run_ids is None:
            store.deliveries.forget(parent)
            return False
        try:
            states = [state for run_id in run_ids for state in store.runs.find(run_id)]
            in_order = sorted(states, key=lambda state: (state.run.ended_at or "", state.number))
            ends = [_end_of(store, state) for state in in_order]
            if ends:
                prompt: JsonObject = {"prompt": callback_prompt(ends)}
                resume = NewRun(session_id=parent, parameters=prompt, model_script=settings.model_script)
                enqueue(store, accepted(store, resume, settings))
        except (StoreUnwritable, StoreUnusable):
            raise
        except (HTTPException, RunnerError, ValueError) as error:
            reason = _reason(error)
            store.deliveries.put_off("callback", parent, run_ids, None, reason)
            tell(f"warning: session {parent} is not told of the end of {', '.join(run_ids)}: {reason!r}")
            return False
        store.deliveries.end("callback", parent, run_ids)
        return bool(ends)


def _end_of(store: Store, state: RunState) -> ChildEnd:
    run = state.run
    if run.status == "cancelled":
        return ChildEnd(run.session_id, STOPPED, has_failed=True)
    terminal = terminal_of(store, run.run_id)
    if isinstance(terminal, Failure):
        return ChildEnd(run.session_id, f"{terminal.error.type}: {terminal.error.message}", has_failed=True)
    if run.status == "failed":
        return ChildEnd(run.session_id, run.error_type or "Unknown error", has_failed=True)
    text, data = (terminal.result_text, terminal.result_data) if isinstance(terminal, Result) else (None, None)
    return ChildEnd(run.session_id, text_of_result(text, data))


def _reason(error: Exception) -> str:
    detail = error.detail if isinstance(error, HTTPException) else str(error)
    return str(detail["message"] if isinstance(detail, dict) else detail)

"""Announces ends of runs and notices, once each, and resumes the parents that wait: at most one resume at a time.

All state is in the store, and each step is one transaction. So it goes on after a crash, and several servers share it.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

from fastapi import HTTPException
from pydantic import JsonValue

from ao_protocol.callbacks import STOPPED, ChildEnd, callback_prompt, text_of_result
from ao_protocol.events import Failure, Result
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.runs.submission import NewRun, enqueue
from ao_runner.store.notices import Notice
from ao_runner.store.records import RunState, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import StoreUnusable, StoreUnwritable
from ao_server.context import ServerContext
from ao_server.joined_workers import tell
from ao_server.shapes import terminal_of
from ao_server.submission import ServerSettings, accepted

LOOK_SECONDS: Final = 2.0


async def announce_ends(context: ServerContext) -> None:
    """Announce the ends of runs, requests to a person and pauses of profiles, until it is cancelled."""
    async for _ in context.access.rounds():
        with suppress(RunnerError):  # it tries again, and requests report the error
            await _announce(context)


async def _announce(context: ServerContext) -> None:
    access = context.access
    while await access.read(lambda store: store.deliveries.unannounced_ends()) and await access.write(
        lambda store: store.deliveries.announce_ends(timestamp(store.now())) > 0
    ):
        access.wakeup.notify()  # the senders to webhooks
    if await access.read(_are_untold) and await access.write(announce_untold) > 0:
        access.wakeup.notify()
    for parent in await access.read(lambda store: store.deliveries.parents_to_resume()):
        if await access.write_alone(partial(resume_parent, parent=parent, settings=context.settings)):
            access.notify()


def _are_untold(store: Store) -> bool:
    return store.inputs.are_untold() or store.limits.are_untold(timestamp(store.now()))


def announce_untold(store: Store) -> int:
    """Announce the requests that wait and the pauses of profiles that nobody was told of, and return their number."""
    now = timestamp(store.now())
    notices = [
        Notice.new(now, "input.requested", agent or "", run_id, request_id=request_id)
        for run_id, agent, request_id in store.inputs.mark_untold()
    ]
    paused = store.limits.mark_untold(now)
    notices += [Notice.new(now, "profile.paused", profile=name, until=until) for name, until in paused]
    store.deliveries.tell_of(notices, now)
    return len(notices)


async def announce_losses(context: ServerContext) -> None:
    """Announce the hosts whose last worker is gone and did not leave in order, until it is cancelled.

    It knows the workers that have lived since this server was started.
    """
    access = context.access
    seen: dict[str, str] = {}
    while True:
        with suppress(RunnerError):
            living = await access.read(lambda store: store.workers.living())
            hosts = {name: owner.host for name, owner in living.items() if owner.host and owner.serves}
            if new := list(hosts.keys() - seen.keys()):
                await access.write(lambda store: store.workers.mark_back(new))  # awaited here
            gone = {name: host for name, host in seen.items() if name not in living}
            if gone and await access.write(partial(announce_lost, gone=gone, left=set(hosts.values()))) > 0:
                access.wakeup.notify()
            seen = {name: host for name, host in {**seen, **hosts}.items() if name in living}
        await asyncio.sleep(LOOK_SECONDS)


def announce_lost(store: Store, gone: dict[str, str], left: set[str]) -> int:
    """Announce hosts that have no worker any more.

    Args:
        store: The store.
        gone: The host of each worker that is gone.
        left: The hosts that have living workers.

    Returns:
        The number of lost hosts.
    """
    now = timestamp(store.now())
    lost = store.workers.mark_lost(list(gone))
    hosts = sorted({gone[name] for name in lost} - left)
    workers: dict[str, list[JsonValue]] = {host: [one for one in sorted(lost) if gone[one] == host] for host in hosts}
    store.deliveries.tell_of([Notice.new(now, "host.lost", host=host, workers=workers[host]) for host in hosts], now)
    return len(hosts)


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

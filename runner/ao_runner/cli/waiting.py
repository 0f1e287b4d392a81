"""Why a queued run waits, and what to do if no worker will ever take it."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ao_runner.store.ownership import Owner
from ao_runner.store.records import RunLimit, RunState, timestamp
from ao_runner.store.store import Store


def is_patient(reason: str) -> bool:
    """Return whether the reason why a run waits goes away by itself."""
    return reason.startswith(("behind ", "not before ", "limit of "))


def waiting_in_vain(living: Mapping[str, Owner], profiles: Collection[str]) -> str | None:
    """Return what to do if no living worker serves one of these profiles; None if all are served."""
    owners = [owner for owner in living.values() if owner.serves]
    unserved = sorted(name for name in profiles if not any(owner.takes(name) for owner in owners))
    if not unserved:
        return None
    if not owners:
        return "no worker is running to perform queued runs; start one: ao worker"
    return f"no worker serves {', '.join(unserved)}; start one: ao worker --profile {unserved[0]}"


def reasons_to_wait(store: Store, states: Sequence[RunState]) -> dict[str, str]:
    """Return, by run, why each queued run of a list waits. A run that some worker can take now is absent.

    Args:
        store: The store of the runs.
        states: Runs, with all open runs of their sessions.
    """
    queued = [state for state in states if state.run.status == "queued"]
    if not queued:
        return {}
    owners = [owner for owner in store.workers.living().values() if owner.serves]
    limits = {(str(limit.kind), limit.name): limit for limit in store.limits.all() if limit.running >= limit.most}
    ahead = _first_of_sessions(states)
    reasons = {}
    for state in queued:
        first = ahead[state.run.session_id]
        found = f"behind {first}" if first != state.run.run_id else next(_reasons(state, owners), None)
        found = found or _limit(state, limits)
        if found is not None:
            reasons[state.run.run_id] = found
    return reasons


def _first_of_sessions(states: Sequence[RunState]) -> dict[str, str]:
    """Return the run of each session that is running, else the oldest queued one."""
    first: dict[str, str] = {}
    for status in ("running", "queued"):
        for state in states:
            if state.run.status == status:
                first.setdefault(state.run.session_id, state.run.run_id)
    return first


def _reasons(state: RunState, owners: Sequence[Owner]) -> Iterator[str]:
    run, profile = state.run, state.run.profile or ""
    if run.not_before is not None and run.not_before > timestamp():
        yield f"not before {run.not_before}"
    serving = [owner for owner in owners if owner.takes(profile)]
    if not serving:
        yield f"no worker serves {profile}"
    tagged = [owner for owner in serving if set(run.requires) <= set(owner.tags)]
    if serving and not tagged:
        offered = {tag for owner in serving for tag in owner.tags}
        missing = [tag for tag in run.requires if tag not in offered] or run.requires
        yield f"no worker that serves {profile} offers {', '.join(missing)}"
    is_tied = state.run.mode == "resume" and state.host is not None
    if tagged and is_tied and not any(owner.host == state.host or profile in owner.shared for owner in tagged):
        yield f"its session is on host {state.host}, which has no such worker"


def _limit(state: RunState, limits: Mapping[tuple[str, str], RunLimit]) -> str | None:
    profile = state.run.profile or ""
    if (pause := limits.get(("pause", profile))) is not None:
        return f"profile {profile} is paused until {pause.until}"
    for kind, name in (("profile", profile), ("agent", state.agent_name)):
        if (limit := limits.get((kind, name))) is not None:
            return f"limit of {kind} {name}: {limit.running} of {limit.most} run"
    return None

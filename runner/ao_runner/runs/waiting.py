"""Why a queued run waits, and what to do if no worker will ever take it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ao_runner.store.limit_table import RunLimit
from ao_runner.store.ownership import Owner
from ao_runner.store.records import RunState, timestamp
from ao_runner.store.store import Store

ReasonKind = Literal["behind", "not_before", "pause", "limit", "no_worker", "no_tag", "other_host"]
PASSING: Final = frozenset[ReasonKind]({"behind", "not_before", "pause", "limit"})
"""The kinds of reasons that go away without a person."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a queued run waits: what kind of reason it is, and the words for a person."""

    kind: ReasonKind
    text: str

    @property
    def is_passing(self) -> bool:
        """Whether the reason goes away by itself."""
        return self.kind in PASSING


def waiting_in_vain(living: Mapping[str, Owner], profiles: Collection[str]) -> str | None:
    """Return what to do if no living worker serves one of these profiles; None if all are served."""
    owners = [owner for owner in living.values() if owner.serves]
    unserved = sorted(name for name in profiles if not any(owner.takes(name) for owner in owners))
    if not unserved:
        return None
    if not owners:
        return "no worker is running to perform queued runs; start one: ao worker"
    return f"no worker serves {', '.join(unserved)}; start one: ao worker --profile {unserved[0]}"


def reasons_to_wait(store: Store, states: Sequence[RunState]) -> dict[str, WaitReason]:
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
    ahead, now = _first_of_sessions(states), store.now()
    reasons = {}
    for state in queued:
        first = ahead[state.run.session_id]
        is_first = first == state.run.run_id
        found = next(_reasons(state, owners, now), None) if is_first else WaitReason("behind", f"behind {first}")
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


def _reasons(state: RunState, owners: Sequence[Owner], now: datetime) -> Iterator[WaitReason]:
    run, profile = state.run, state.run.profile or ""
    if run.not_before is not None and run.not_before > timestamp(now):
        yield WaitReason("not_before", f"not before {run.not_before}")
    serving = [owner for owner in owners if owner.takes(profile)]
    if not serving:
        yield WaitReason("no_worker", f"no worker serves {profile}")
    tagged = [owner for owner in serving if set(run.requires) <= set(owner.tags)]
    if serving and not tagged:
        offered = {tag for owner in serving for tag in owner.tags}
        missing = [tag for tag in run.requires if tag not in offered] or run.requires
        yield WaitReason("no_tag", f"no worker that serves {profile} offers {', '.join(missing)}")
    is_tied = state.run.mode == "resume" and state.host is not None
    if tagged and is_tied and not any(owner.host == state.host or profile in owner.shared for owner in tagged):
        yield WaitReason("other_host", f"its session is on host {state.host}, which has no such worker")


def _limit(state: RunState, limits: Mapping[tuple[str, str], RunLimit]) -> WaitReason | None:
    profile = state.run.profile or ""
    if (pause := limits.get(("pause", profile))) is not None:
        return WaitReason("pause", f"profile {profile} is paused until {pause.until}")
    for kind, name in (("profile", profile), ("agent", state.agent_name)):
        if (limit := limits.get((kind, name))) is not None:
            if limit.most == 0:
                return WaitReason("limit", f"{kind} {name} is paused")
            return WaitReason("limit", f"limit of {kind} {name}: {limit.running} of {limit.most} run")
    return None

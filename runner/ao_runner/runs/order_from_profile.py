"""From a profile to the order of a run: its executor is found, its limits hold where the run brings none of its own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import LoadedBlueprint
from ao_runner.discovery.locate import Executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import Profile
from ao_runner.runs.contracts import keeps_rejected_answers, without_default
from ao_runner.runs.outcome import NotFound
from ao_runner.runs.run_order import MAX_EVENT_BYTES, RunOrder
from ao_runner.runs.timeouts import DRAIN_SECONDS, START_SECONDS
from ao_runner.store.records import Run, Session

DEFAULT_EXECUTORS: Final[Mapping[str, str]] = {"autonomous": "claude-code", "procedural": "procedural"}
"""Who performs the agents of which type, where nobody says."""


def order_under(
    profile: Profile,
    session: Session,
    run: Run,
    *,
    timeout_seconds: float | None = None,
    metadata: JsonObject | None = None,
    environ: Mapping[str, str],
) -> RunOrder:
    """Return the order for a run by the executor of a profile; the shorter of two time limits counts.

    Raises:
        ExecutorNotFound: the profile's executor is not there.
    """
    limits = profile.limits
    times = [seconds for seconds in (timeout_seconds, limits.timeout_seconds) if seconds is not None]
    executor = locate_executor(profile.executor)
    session = replace(
        session,
        executor_name=executor.name,
        executor_path=str(executor.path),
        executor_config={**profile.config, **session.executor_config},
        blueprint=without_default(session.blueprint, run),
    )
    return RunOrder(
        session=session,
        run=run,
        executor=executor,
        environ=environ,
        timeout_seconds=min(times, default=None),
        start_seconds=limits.start_seconds or START_SECONDS,
        idle_seconds=limits.idle_seconds,
        drain_seconds=limits.drain_seconds or DRAIN_SECONDS,
        max_turns=limits.max_turns,
        max_cost_usd=limits.max_cost_usd,
        max_event_bytes=limits.max_event_bytes or MAX_EVENT_BYTES,
        metadata=metadata or {},
        keeps_rejected_answers=keeps_rejected_answers(run),
        profile=profile,
    )


def refused_order(name: str, session: Session, run: Run, error: RunnerError, environ: Mapping[str, str]) -> RunOrder:
    """Return the order for a run that cannot be performed here, so that it ends as any other does."""
    return RunOrder(session, run, Executor(name, Path(name)), environ, refusal=NotFound(str(error)))


def with_commands_folder(config: JsonObject, loaded: LoadedBlueprint) -> JsonObject:
    """Return the configuration; a procedural agent finds its command beside its blueprint, unless told otherwise."""
    if loaded.blueprint.type != "procedural" or "commands_dir" in config:
        return config
    return {**config, "commands_dir": str(loaded.path.resolve().parent)}

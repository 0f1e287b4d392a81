"""`ao worker`: perform runs that a coordinator hands out, many side by side, until told to leave."""

import asyncio
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click.core import ParameterSource

from ao_protocol.addresses import shown_address
from ao_protocol.redaction import Redactor
from ao_runner.cli.options import (
    ORDERED_EXIT_CODE,
    DurationOption,
    complete_profile,
    examples,
    home_option,
    keep_rejected_option,
    split_pair,
    store_option,
    wants_colour,
)
from ao_runner.cli.printing import echo
from ao_runner.coordinators.port import Coordinator
from ao_runner.discovery import describe, locate_executor, startable
from ao_runner.durations import FORMS
from ao_runner.home import WORKSPACES, private_folder
from ao_runner.orchestrator import OrchestratorHosting
from ao_runner.outbox.outbox import OutboxOptions
from ao_runner.outbox.owning import places_of
from ao_runner.processes.cleanup_journal import own_cleanup_journal, sweep_left_behind
from ao_runner.processes.containment import lifelines, probe
from ao_runner.profiles import RUNNERS_OWN, Profile, list_profiles, with_whole_path
from ao_runner.runs.run_request import StopRequests, bare_environment, on_signals, secrets_of
from ao_runner.runs.submission import DEFAULT_EXECUTORS
from ao_runner.store.opening import LOCAL, StorePlace
from ao_runner.store.ownership import EVERY_PROFILE, REMOTE, host_name, own_runs
from ao_runner.store.records import check_tag
from ao_runner.store.worker_table import Offer
from ao_runner.warm import WarmLauncher
from ao_runner.worker.assignment import Host, order_ahead
from ao_runner.worker.claiming import raise_descriptor_limit
from ao_runner.worker.delivery import take_outbox
from ao_runner.worker.log import LogFormat, WorkerLog, open_log
from ao_runner.worker.metrics import Exposition, Metrics, Watched, WatchedCoordinator
from ao_runner.worker.observers import Observer, RunLog, Tracing, exported_traces
from ao_runner.worker.worker import ExitSummary, Worker

if TYPE_CHECKING:
    from ao_runner.coordinators.http.registration import RunnerIdentity

STORE: Final = "store"
"""The value of `--coordinator` for the queue in the store of `--store`."""


WorkerArguments: TypeAlias = dict[str, Any]
"""The value of each option of `ao worker`, by its name."""


class Kind(Enum):
    """The kinds of coordinators, and how a message names them."""

    STORE = "store"
    STDOUT = "stdout"
    LEASED = "an `ao serve`"
    REGISTERED = "a coordinator without leases"


EVERY: Final = frozenset(Kind)
KEPT: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("coordinator", "concurrency", "until_idle", "log_format", "outbox_quota", "pairs"), EVERY),
    **dict.fromkeys(("metrics_port", "metrics_labels", "orchestrator", "drain_at_eof", "keep_rejected", "home"), EVERY),
    "profiles": EVERY,
    "store": frozenset({Kind.STORE}),
    "lease": frozenset({Kind.STORE, Kind.LEASED}),
    "gone_after": frozenset({Kind.STORE, Kind.LEASED}),
    "tags": EVERY - {Kind.STDOUT},
    "agents": frozenset({Kind.REGISTERED}),
}
"""The kinds of coordinators with which each option has an effect. With the others it is refused, see `_check_kept`."""


@click.command(
    "worker",
    epilog=examples(
        "ao worker",
        "ao worker --profile reviewer --concurrency 16",
        "ao worker --coordinator https://coordinator.example --profile reviewer",
        "ao worker --metrics-port 9464 --log-format json",
        "ao worker --until-idle",
    )
    + "\n\n\b\n"
    "Signals: the first SIGTERM or Ctrl-C lets runs finish, the second cancels them, the third kills them.\n"
    "Exit codes: 0 all events were delivered, 64 lines of stdin were no runs, 75 events were not delivered: the next\n"
    "start delivers them, 130 runs were cancelled.",
)
@click.option(
    "--coordinator",
    default=STORE,
    show_default=True,
    metavar="store|URL|stdout",
    help="Source of runs: the queue in --store, an HTTP coordinator, or lines on stdin with events on stdout.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME|PATH",
    shell_complete=complete_profile,
    help="Serve only this profile or executor. The first one also serves runs that name none. Repeatable.",
)
@click.option(
    "--concurrency", type=click.IntRange(1), default=4, show_default=True, help="Maximum number of concurrent runs."
)
@click.option("--until-idle", is_flag=True, help="Exit when no run is active and none has arrived for two seconds.")
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    help="Format of the log on stderr: readable lines or JSON lines.  [default: console on a terminal, else json]",
)
@click.option(
    "--lease",
    type=DurationOption(1.0),
    default="30s",
    show_default=True,
    metavar="DURATION",
    help=f"Lease of a run of a store or of `ao serve`, renewed while the worker is alive: {FORMS}.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    callback=lambda _ctx, _parameter, tags: _valid_tags(tags),
    metavar="TAG",
    help="Offer a tag to runs that demand it; host:NAME, with AO_HOST or the machine's name, is always offered."
    " Repeatable.",
)
@click.option(
    "--host-gone-after",
    "gone_after",
    default="10m",
    show_default=True,
    type=DurationOption(),
    metavar="DURATION",
    help="Fail queued runs of sessions on another host when that host has had no worker for this DURATION.",
)
@click.option(
    "--outbox-quota",
    type=click.IntRange(1 << 20),
    default=1 << 30,
    show_default="1 GiB",
    metavar="BYTES",
    help="Maximum size of the events on disk that wait for delivery.",
)
@click.option(
    "--runner-value", "pairs", multiple=True, metavar="K=V", help="Value of ${runner.K} in blueprints. Repeatable."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve /metrics and /healthz on 127.0.0.1; 0 picks a free port and logs it.",
)
@click.option(
    "--metrics-label",
    "metrics_labels",
    multiple=True,
    metavar="NAME",
    help="Count ended runs by this label, too, as label_NAME, with at most 100 values. Repeatable.",
)
@click.option(
    "--agents",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Offer the procedural agents whose blueprints are in DIR to an HTTP coordinator.",
)
@click.option(
    "--orchestrator",
    metavar="URL",
    help="Address of the `ao serve` by which agents start agents; the default is that of --coordinator.",
)
@click.option("--drain-at-eof", is_flag=True, hidden=True, help="Let runs finish and leave when stdin ends.")
@keep_rejected_option
@home_option
@store_option
def worker_command(**given: Any) -> None:  # noqa: ANN401  # what click gives
    """Perform runs from the queue of this host, from an HTTP coordinator, or from stdin.

    Each event is written to disk before it is delivered. If delivery fails, it is retried, also by the next worker
    on this host. No process that a run started outlives the run.
    """
    raise_descriptor_limit()
    given["profiles"] = tuple(map(with_whole_path, given["profiles"]))
    left = asyncio.run(_work(given))
    if left.undelivered_runs:
        echo(
            f"ao: events of {left.undelivered_runs} runs are not delivered yet; the next `ao worker` delivers them",
            err=True,
        )
    if left.refused_lines:
        echo(f"ao: lines of stdin that were no runs: {left.refused_lines}; their failures are on stdout", err=True)
    if left.is_ordered and given["drain_at_eof"] and not left.cancelled_runs:
        sys.exit(ORDERED_EXIT_CODE)
    sys.exit(130 if left.cancelled_runs else 75 if left.undelivered_runs else 64 if left.refused_lines else 0)


def _valid_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(map(check_tag, tags))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


async def _work(given: WorkerArguments) -> ExitSummary:
    """Take what a worker owns on this host, work until told to leave, and give it back."""
    home, places, stops = given["home"], _outboxes(given), StopRequests()
    host = _host(given, dict(os.environ))
    options = OutboxOptions(given["outbox_quota"], has_a_knowing_coordinator=given["coordinator"] == STORE)
    containment = probe(host.environ)
    with ExitStack() as stack:
        stack.enter_context(on_signals(stops.request))
        owner = stack.enter_context(own_runs(home, _served_here(given), _tags(given)))
        log = _log(given, owner, host)
        await _sweep(home, log, host.environ)
        cleanup = stack.enter_context(own_cleanup_journal(home, owner, log.warning))
        lines = stack.enter_context(lifelines(containment))
        private_folder(home, places.parent.name, places.name)
        outbox = stack.enter_context(take_outbox(places, options))
        launcher = stack.enter_context(WarmLauncher(lines, cleanup, log.warning))
        await _park_ahead(given["profiles"], host, launcher)
        coordinator = await _coordinator(given, owner, host, log, stops)
        asked_at = given["orchestrator"] or given["coordinator"]
        hosting = OrchestratorHosting(asked_at, host.environ, launcher.keeps, log.info)
        metrics = None if given["metrics_port"] is None else Metrics(host.profile, given["metrics_labels"])
        worker = Worker(
            coordinator if metrics is None else WatchedCoordinator(coordinator, metrics),
            outbox,
            places,
            launcher,
            replace(host, hosting=hosting),
            log,
            concurrency=given["concurrency"],
            outbox_options=options,
            until_idle=given["until_idle"],
            observers=_observers(stack, host, log, metrics),
        )
        launcher.on_session_left, launcher.is_full = worker.session_left, worker.is_full
        stack.enter_context(stops.told_to(worker.stop))
        stack.enter_context(_at_eof(stops.request) if given["drain_at_eof"] else nullcontext())
        log.info(
            "worker started", coordinator=_named(given), store=StorePlace(home, given["store"]).name,
            profiles=list(given["profiles"]) or "all", concurrency=given["concurrency"], containment=containment.kind,
            outbox=str(outbox.folder),
        )  # fmt: skip
        async with hosting, _served(given, worker, coordinator, metrics, launcher):
            left = await worker.work()
    log.info("worker stopped", cancelled_runs=left.cancelled_runs, undelivered_runs=left.undelivered_runs)
    return replace(left, refused_lines=coordinator.refused_lines)


@contextmanager
def _at_eof(leave: Callable[[], None]) -> Iterator[None]:
    """Call a function when stdin ends: when the process that started this one has closed its end, or has died."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def hear() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            leave()

    loop.add_reader(descriptor, hear)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _host(given: WorkerArguments, environ: dict[str, str]) -> Host:
    """Return what this host provides for runs; raise `RunnerError` for a profile that cannot be used."""
    profiles, values = given["profiles"], dict(split_pair(pair, "--runner-value") for pair in given["pairs"])
    default, keeps = next(iter(profiles), None), given["keep_rejected"]
    host = Host(given["home"], environ, default, values, keeps_rejected_answers=keeps)
    for name in profiles:
        host.find_profile(name)
    return host


async def _sweep(home: Path, log: WorkerLog, environ: Mapping[str, str]) -> None:
    if swept := sweep_left_behind(home, log.warning):
        groups, folders = list(swept.groups), list(map(str, swept.folders))
        log.warning("cleaned up after a killed runner", process_groups=groups, temporary_folders=folders)
    if (home / WORKSPACES).is_dir():
        from ao_runner.runs.workspace import sweep_workspaces

        for sentence in await sweep_workspaces(home / WORKSPACES, environ):
            log.warning(sentence)


async def _park_ahead(profiles: Iterable[str], host: Host, launcher: WarmLauncher) -> None:
    for name in profiles:
        if (profile := host.find_profile(name)).warm is not None:
            order = order_ahead(profile, host)
            with startable(order.executor):
                await launcher.park_ahead(order)


def _log(given: WorkerArguments, owner: str, host: Host) -> WorkerLog:
    """Return the log, out of which every secret is taken that this host is known to have."""
    names = {name for profile in given["profiles"] for name in host.find_profile(profile).secrets}
    redactor = Redactor(secrets_of(host.environ, names | RUNNERS_OWN))
    log_format: LogFormat = given["log_format"] or ("console" if sys.stderr.isatty() else "json")
    return open_log(log_format, colours=sys.stderr.isatty() and wants_colour(), worker=owner, redactor=redactor)


def _observers(stack: ExitStack, host: Host, log: WorkerLog, metrics: Metrics | None) -> list[Observer]:
    """Return who hears of the runs of a worker: the log, traces if the environment asks for them, and the metrics."""
    observers: list[Observer] = [RunLog(log)]
    if (provider := stack.enter_context(exported_traces(host.environ, log))) is not None:
        observers.append(Tracing(provider))
    return observers if metrics is None else [*observers, metrics]


@asynccontextmanager
async def _served(
    given: WorkerArguments, worker: Worker, coordinator: Coordinator, metrics: Metrics | None, launcher: WarmLauncher
) -> AsyncIterator[None]:
    """Serve the metrics of a worker while it works, where that is wished."""
    if metrics is None:
        yield
        return

    def waiting() -> dict[str, int]:
        return {"parked": len(launcher.parked), "kept": len(launcher.kept)}

    def trouble() -> str | None:
        return worker.trouble or (None if metrics.is_reaching else "the coordinator is unreachable")

    quota, slots = given["outbox_quota"], given["concurrency"]
    metrics.watch(Watched(worker.held, worker.outbox, quota, slots, waiting, lambda: worker.unreadable_runs))
    metrics.watch_fleet(coordinator.fleet)
    async with Exposition(metrics, trouble).served(given["metrics_port"]) as port:
        worker.log.info("metrics are served", address=f"http://127.0.0.1:{port}/metrics")
        yield


def _named(given: WorkerArguments) -> str:
    """Return the name of the coordinator, or its address without the parts that may be secret."""
    wanted = given["coordinator"]
    return wanted if wanted in {STORE, "stdout"} else shown_address(wanted)


def _default_profile(host: Host) -> Profile:
    return host.find_profile(host.profile or DEFAULT_EXECUTORS["autonomous"])


def _offer(given: WorkerArguments, owner: str, host: Host) -> Offer:
    found = [item.profile for item in list_profiles(given["home"], host.environ) if item.profile is not None]
    return Offer(
        owner,
        profiles=given["profiles"],
        tags=_tags(given),
        shared=tuple(one.name for one in found if one.shared_sessions),
        pausing=tuple(one.name for one in found if one.pause_on_limit),
        lease_seconds=given["lease"],
        gone_seconds=given["gone_after"],
        slots=given["concurrency"],
    )


async def _speaks_leases(
    url: str, environ: Mapping[str, str], stops: StopRequests, tell: Callable[[str], None]
) -> bool:
    """Return whether a server hands out runs with leases. A request to stop ends the wait for its answer."""
    from ao_runner.coordinators.http.leased import speaks_leases

    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as waiting:
            with stops.told_to(lambda: waiting.reschedule(loop.time())):
                return await speaks_leases(url, environ, tell)
    return False


async def _coordinator(
    given: WorkerArguments, owner: str, host: Host, log: WorkerLog, stops: StopRequests
) -> Coordinator:
    wanted = given["coordinator"]
    is_http = wanted.startswith(("http://", "https://"))
    if wanted in {STORE, "stdout"}:
        _check_kept(given, Kind.STORE if wanted == STORE else Kind.STDOUT)

    def tell(sentence: str) -> None:
        log.info(sentence)

    if wanted == STORE:
        from ao_runner.coordinators.stored_queue import StoreCoordinator

        return StoreCoordinator(StorePlace(given["home"], given["store"]), _offer(given, owner, host), tell)
    if wanted == "stdout":
        from ao_runner.coordinators.pipe import RunDefaults, StdoutCoordinator

        executor = locate_executor(_default_profile(host).executor)
        attempt, here = max(1, int(time.time())), str(Path.cwd())
        defaults = RunDefaults(executor.name, str(executor.path), here, attempt=attempt, environ=host.environ)
        return StdoutCoordinator(defaults, tell)
    if is_http:
        from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
        from ao_runner.coordinators.http.leased import LeasedCoordinator

        identity = await _identity(_default_profile(host), host, given)
        if await _speaks_leases(wanted, host.environ, stops, tell):
            _check_kept(given, Kind.LEASED)
            offer = replace(_offer(given, f"{REMOTE}{owner}", host), host=host_name())
            return LeasedCoordinator(wanted, offer, host.environ)
        _check_kept(given, Kind.REGISTERED)
        folder = private_folder(given["home"], "coordinators", places_of(given["home"], wanted).name)
        return HttpCoordinator(wanted, identity, tell, host.environ, folder=folder)
    if wanted == LOCAL:
        raise click.BadParameter(f"the queue in --store is called {STORE}", param_hint="--coordinator")
    raise click.BadParameter(f"{STORE}, stdout or a URL (https://…), found {_named(given)}", param_hint="--coordinator")


def _check_kept(given: WorkerArguments, kind: Kind) -> None:
    """Raise `click.BadParameter` for an option of the command line that has no effect with a kind of coordinator."""
    context = click.get_current_context()
    for option in context.command.params:
        name = str(option.name)
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and kind not in KEPT[name]:
            raise click.BadParameter(f"it has no effect with {kind.value}; leave it out", param_hint=option.opts[0])
    if kind is Kind.REGISTERED and len(given["profiles"]) > 1:
        lines = "; ".join(f"ao worker --coordinator {_named(given)} --profile {name}" for name in given["profiles"])
        raise click.BadParameter(
            f"{kind.value} registers one profile for each worker, found {len(given['profiles'])}; start {lines}",
            param_hint="--profile",
        )


def _outboxes(given: WorkerArguments) -> Path:
    """Return the folder of the outboxes for a coordinator; a store keeps its folder when its password changes."""
    is_store = given["coordinator"] == STORE
    return places_of(
        given["home"], StorePlace(given["home"], given["store"]).name if is_store else given["coordinator"]
    )


def _served_here(given: WorkerArguments) -> tuple[str, ...]:
    """Return the profiles whose runs the worker claims from the file of this host."""
    is_of_this_host = given["coordinator"] == STORE and given["store"] == LOCAL
    return (given["profiles"] or (EVERY_PROFILE,)) if is_of_this_host else ()


def _tags(given: WorkerArguments) -> tuple[str, ...]:
    return (*given["tags"], f"host:{host_name()}")


async def _identity(profile: Profile, host: Host, given: WorkerArguments) -> "RunnerIdentity":
    """Return what a server is told of this worker: its type decides which runs it is given."""
    from ao_runner.coordinators.http.registration import RunnerIdentity, load_agents

    executor = locate_executor(profile.executor)
    with startable(executor):
        description = await describe(executor, bare_environment(host.environ))
    executor_type, agents = description.agent_types[0], given["agents"]
    if agents is not None and executor_type != "procedural":
        raise click.BadParameter(
            f"{profile.name} performs {executor_type} agents; use --profile procedural", param_hint="--agents"
        )
    return RunnerIdentity(
        hostname=platform.node(),
        project_dir=str(Path.cwd()),
        profile=profile.name,
        executor_type=executor_type,
        command=str(executor.path),
        config=profile.settings,
        lifecycle=profile.lifecycle,
        tags=tuple(dict.fromkeys((*profile.tags, *_tags(given)))),
        agents=() if agents is None else load_agents(agents, Path.cwd()),
    )

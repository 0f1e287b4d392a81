"""Check whether this machine is ready for runs. Findings are facts with advice, without secret values."""

import asyncio
import platform
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ValidationError

from ao_protocol.documents import Description, RequiredProgram
from ao_protocol.version import CURRENT, SchemaVersion
from ao_runner.discovery import CHECK_SECONDS, Executor, ask
from ao_runner.errors import RunnerError
from ao_runner.home import WORKSPACES
from ao_runner.processes.cleanup_journal import find_left_behind
from ao_runner.processes.containment import UnknownContainment, probe
from ao_runner.processes.spawn import first_line_of, search_path
from ao_runner.runs.run_request import bare_environment, executor_environment
from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from ao_runner.store.postgres_operations import ServerState

VERSION_SECONDS: Final = 10.0
CLOCK_SECONDS: Final = 2.0
"""A larger difference of two clocks is reported."""

Verdict = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    about: str
    verdict: Verdict
    text: str
    advice: str | None = None


class _Program(BaseModel):
    name: str
    path: str
    version: str | None = None


class _Verdict(BaseModel):
    """What `check` prints (AOX-126)."""

    problems: list[str] = []
    programs: list[_Program] = []
    remarks: list[str] = []


def examine_machine(place: StorePlace, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check the prerequisites of every run."""
    yield Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield Check("package", "ok", f"ao-executor-protocol {version('ao-executor-protocol')}, protocol {CURRENT}")
    yield from examine_store(place)
    try:
        held = probe(environ)
        yield Check("containment", "note" if held.kind == "process_group" else "ok", held.sentence)
    except UnknownContainment as error:
        yield Check("containment", "problem", str(error))
    if kept := len(list((place.home / WORKSPACES).glob("*.json"))):
        advice = "`ao sessions delete` and `ao sessions prune` remove those of the sessions that they delete"
        yield Check("workspaces", "ok", f"{kept} in use or kept below {place.home / WORKSPACES}", advice)
    if left := find_left_behind(place.home):
        advice = "the next `ao run` or `ao worker` with this home cleans it up"
        yield Check("left behind", "note", f"a killed runner left {left}", advice)


def examine_store(place: StorePlace) -> Iterator[Check]:
    """Check the store: the file of this host, or a database and its server."""
    try:
        if not place.is_local:
            yield from _database(place)
            return
        with place.open() as store:
            yield from _file(store)
    except RunnerError as error:
        yield Check("home" if place.is_local else "store", "problem", str(error))


def _file(store: Store) -> Iterator[Check]:
    store.check()
    sessions, _, _ = store.sessions.all(), store.runs.states(), store.schemas.all()
    home = store.home
    if store.is_writable:
        mode = stat.S_IMODE(home.stat().st_mode)
        yield Check("home", "ok", f"{home} can be written, mode {mode:04o}; {len(sessions)} sessions")
    else:
        yield Check("home", "problem", f"{home} is read-only", "make it writable, or choose another: --home, AO_HOME")
    for sentence in store.damage:
        yield Check("home", "problem", sentence)


def _database(place: StorePlace) -> Iterator[Check]:
    from ao_runner.store.postgres_operations import layout_at, look

    if layout_at(place) == 0:
        yield Check("store", "note", f"{place.name} has no tables yet", "create them: ao store init")
        return
    yield from judge_server(place.name, look(place))


def judge_server(name: str, state: "ServerState") -> Iterator[Check]:
    """Return what the state of a server means for runs."""
    yield Check("store", "ok", f"{name}: PostgreSQL {state.version}, layout {state.layout}, {state.workers} workers")
    if state.is_read_only:
        advice = "name its primary, or all servers: postgresql://user@a,b/database?target_session_attrs=read-write"
        yield Check("store", "problem", "the server is a standby or read-only, so no run can be stored", advice)
    if state.missing_partitions:
        missing = ", ".join(state.missing_partitions)
        yield Check("store", "problem", f"tables for events are missing: {missing}", "create them: ao store migrate")
    if abs(state.clock_ahead_seconds) > CLOCK_SECONDS:
        text = f"the clock of the server differs by {state.clock_ahead_seconds:+.1f} s from the clock of this host"
        yield Check("store", "note", text, "synchronise both (NTP): hosts write the times of events")
    if state.waiting_commits:
        text = f"{state.waiting_commits} commits wait for a synchronous standby, which is probably away"
        yield Check("store", "problem", text, "start it, or change synchronous_standby_names and reload the primary")
    if state.polling is not None:
        yield Check("store", "note", state.polling)
    if state.abandoned:
        runs = ", ".join(f"{run_id} on {host}" for run_id, host in state.abandoned)
        yield Check("store", "note", f"runs whose worker is gone: {runs}", "a worker or `ao runs` ends them")


def examine_executor(
    executor: Executor, description: Description, environ: Mapping[str, str], *, is_needed: bool
) -> Iterator[Check]:
    """Check the prerequisites of one executor's runs. What is missing is a problem only if it `is_needed`."""
    about = f"executor {executor.name}"
    majors = {SchemaVersion.parse(text).major for text in description.schema_versions}
    if CURRENT.major not in majors:
        spoken = ", ".join(description.schema_versions)
        problem = f"supports schema version {spoken}, this runner {CURRENT}"
        yield Check(about, "problem", problem, "install a version that supports 3.x")
        return
    missing: Verdict = "problem" if is_needed else "note"
    yield Check(about, "ok", f"{description.executor.version} at {executor.path}")
    yield from _secrets(about, description, environ)
    own = [*_own_check(about, executor, description, environ, missing)] if description.capabilities.check else []
    yield from own
    for program in description.requires_programs:
        if not any(one.text.startswith(f"{program.name} at ") for one in own):  # else the one that a run starts is told
            yield _program(about, program, environ, missing, checks_itself=description.capabilities.check)


def _secrets(about: str, description: Description, environ: Mapping[str, str]) -> Iterator[Check]:
    given = [name for name in description.secrets if environ.get(name)]
    if given:
        yield Check(about, "ok", f"{', '.join(given)} set (value not shown)")
    elif description.secrets:
        yield Check(about, "note", f"none of {', '.join(description.secrets)} is set")


def _own_check(
    about: str, executor: Executor, description: Description, environ: Mapping[str, str], missing: Verdict
) -> Iterator[Check]:
    try:
        answer = asyncio.run(ask(executor, "check", executor_environment(environ, description), CHECK_SECONDS))
        verdict = _Verdict.model_validate_json(answer.stdout)
    except (OSError, ValidationError) as error:
        yield Check(about, "problem", f"its own check gave no verdict: {error}", f"try it: {executor.path} check")
        return
    for program in verdict.programs:
        shown = f": {program.version}" if program.version else ""
        yield Check(about, "ok", f"{program.name} at {program.path}{shown}")
    for remark in verdict.remarks:
        yield Check(about, "note", remark)
    if answer.exit_code == 0:
        yield Check(about, "ok", "its own check passed")
    for problem in verdict.problems if answer.exit_code != 0 else ():
        sentence, _, advice = problem.partition("; ")
        yield Check(about, missing, sentence, advice or None)
    if answer.exit_code != 0 and not verdict.problems:
        yield Check(about, "problem", "its own check failed", f"try it: {executor.path} check")


def _program(
    about: str, program: RequiredProgram, environ: Mapping[str, str], missing: Verdict, *, checks_itself: bool
) -> Check:
    path = shutil.which(program.name, path=search_path(environ))
    if path is not None:
        with TemporaryDirectory(prefix="ao-version-", ignore_cleanup_errors=True) as home:  # some write into their home
            environment = {**bare_environment(environ), "HOME": home}
            shown = first_line_of([path, "--version"], environment, VERSION_SECONDS)
        return Check(about, "ok", f"{program.name} at {path}" + (f": {shown}" if shown else ""))
    if checks_itself:
        # The executor may include the program. If it does not, its own check has explained how to install it.
        return Check(about, "note", f"{program.name} is not on PATH; the check above decides whether it is missing")
    return Check(about, missing, f"{program.name} is not on PATH", program.install_hint)

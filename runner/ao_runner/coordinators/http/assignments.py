"""Turn a run of the server into an assignment, with its blueprint and the blueprint's script.

The server sends a run with its blueprint, with two exceptions: a callback that resumes a parent, and the list of runs,
in which a worker finds missed runs. A script is fetched when a run first needs it. The server announces changed scripts
in responses to polls. Such a script is only forgotten here, and the next run that needs it fetches it again. A lost
download therefore delays one run and loses nothing.
"""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from urllib.parse import quote

from pydantic import JsonValue

from ao_lifeline.removal import remove_tree
from ao_protocol.framing import MAX_DEPTH
from ao_protocol.version import with_typed_servers
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, check_interoperable
from ao_runner.blueprints.loading import understand_blueprint
from ao_runner.coordinators.http.registration import Enrolment, RunnerIdentity
from ao_runner.coordinators.http.transport import is_name
from ao_runner.coordinators.port import Assignment
from ao_runner.discovery import Executor
from ao_runner.errors import RunnerError
from ao_runner.home import make_private
from ao_runner.run_events import RunKey
from ao_runner.runs.submission import NewRun, Reception, accept

TERMINATE_SECONDS: Final = 4.0
"""With the second before SIGTERM, clients of this contract see a stopped run after 5 s, as of the existing runner.

An executor that declares `cancel` has 5 s more, which SPEC 11.3 gives it before.
"""
MAX_SCRIPT_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all files of a script together, unpacked."""
MAX_FILES: Final = 1000
MAX_TAR_BYTES: Final = MAX_SCRIPT_BYTES + 4 * 1024 * 1024
"""The maximum size of the unpacked tar, with its headers."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnusableScript(ValueError):
    """A script that cannot be fetched or run. The text of the exception is the reason."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script on this host."""

    folder: Path
    file: str
    """The program, relative to the folder."""
    parameters_schema: JsonObject | None


class Scripts:
    """The scripts of this worker: the newest version of each, and the one before it for runs that use it.

    Args:
        folder: The folder for the scripts; each version has a folder named by its content.
        enrolment: The connection to the server.
    """

    def __init__(self, folder: Path, enrolment: Enrolment) -> None:
        self._folder = folder
        self._enrolment = enrolment
        self._known: dict[str, Script] = {}

    def forget(self, name: str) -> None:
        """Forget a script, so that it is fetched again when it is needed next."""
        self._known.pop(name, None)

    async def find(self, name: str) -> Script:
        """Return a script. Fetch it if it is not known.

        Raises:
            UnusableScript: The server has no script of that name, or sends an invalid one.
            CoordinatorUnavailable: The script cannot be fetched now.
        """
        if name not in self._known:
            if _NAME.fullmatch(name) is None:
                raise UnusableScript(f"{name!r} is not the name of a script")
            archive = await self._enrolment.exchange.download(f"/scripts/{name}/download")
            if archive is None:
                raise UnusableScript(f"the server has no script {name!r}")
            self._known[name] = await asyncio.to_thread(unpack, archive, self._folder / name, name)
        return self._known[name]


def unpack(archive: bytes, folder: Path, name: str) -> Script:
    """Unpack a gzipped tar of one folder `name`, below a folder named by its content, and remove old versions.

    Only regular files and folders are accepted. The program of the script is made executable.

    Raises:
        UnusableScript: The archive is invalid or too large, or lacks `script.json` or the program that this names.
    """
    version = folder / hashlib.sha256(archive).hexdigest()[:16]
    if not version.is_dir():
        make_private(folder)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            _extract(archive, fresh, name)
            script = _described(fresh, name)
            program = fresh / script.file
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            fresh.rename(version)
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            if not version.is_dir():  # another worker may have unpacked the same version
                raise UnusableScript(f"script {name!r} cannot be unpacked: {error}") from error
        finally:
            remove_tree(str(fresh))
    os.utime(version)
    versions = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in versions[:-2]:
        remove_tree(str(path))
    return _described(version, name)


def _extract(archive: bytes, target: Path, name: str) -> None:
    total = 0
    # Decompressed before it is parsed: tarfile reads long names and attributes completely, whatever their size.
    with gzip.open(io.BytesIO(archive)) as packed:
        unpacked = packed.read(MAX_TAR_BYTES + 1)
    if len(unpacked) > MAX_TAR_BYTES:
        raise UnusableScript(f"script {name!r} has more than {MAX_TAR_BYTES} bytes unpacked")
    with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
        for number, member in enumerate(tar):
            path = PurePosixPath(member.name)
            total += member.size
            if number >= MAX_FILES or total > MAX_SCRIPT_BYTES:
                raise UnusableScript(f"script {name!r} has more than {MAX_FILES} files or {MAX_SCRIPT_BYTES} bytes")
            is_expected = member.isdir() or (member.isfile() and len(path.parts) > 1)
            if not is_expected or path.parts[:1] != (name,) or ".." in path.parts:
                raise UnusableScript(f"script {name!r} contains {member.name!r}, expected files below {name}/")
            place = target.joinpath(*path.parts[1:])
            if member.isdir():
                make_private(place)
                continue
            make_private(place.parent)
            source = tar.extractfile(member)
            assert source is not None, "a regular file"  # noqa: S101
            with source, place.open("xb") as file:
                shutil.copyfileobj(source, file)
            place.chmod(0o700 if member.mode & stat.S_IXUSR else 0o600)


def _described(folder: Path, name: str) -> Script:
    try:
        document = json.loads((folder / "script.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableScript(f"script {name!r} has no readable script.json: {error}") from error
    file = document.get("script_file") if isinstance(document, dict) else None
    if not isinstance(file, str) or ".." in PurePosixPath(file).parts or not (folder / file).is_file():
        raise UnusableScript(f"script.json of {name!r}: script_file is {file!r}, expected a file of the script")
    schema = document.get("parameters_schema")
    return Script(folder, file, schema if isinstance(schema, dict) else None)


MODES: Final[Mapping[JsonValue, Literal["start", "resume"]]] = {"start_session": "start", "resume_session": "resume"}
PASSED_ON: Final = ("parent_session_id", "execution_mode", "scope", "traceparent")
"""The fields of a run that become metadata of its invocation."""


class UnusableRun(ValueError):
    """A run that cannot be performed as the server sent it. The text of the exception begins with an error type."""


@dataclass(frozen=True, slots=True)
class RunDetails:
    """The server's further data about a run."""

    session: JsonObject
    """The session of the run; empty for a start, which has none yet."""
    blueprint: JsonObject | None = None
    script: Script | None = None
    """The script of the blueprint, if any."""
    is_resolved: bool = True
    """Whether the server has filled in the blueprint's placeholders."""


@dataclass(frozen=True, slots=True)
class OfferedRun:
    """A run as the server sent it."""

    run_id: str
    session_id: str
    document: JsonObject

    @property
    def mode(self) -> Literal["start", "resume"]:
        """The mode of the run.

        Raises:
            UnusableRun: The run is neither a start nor a resume.
        """
        kind = self.document.get("type")
        mode = MODES.get(kind) if isinstance(kind, str) else None
        if mode is None:
            raise UnusableRun(f"invalid_invocation: type is {kind!r}, expected one of {', '.join(map(str, MODES))}")
        return mode

    def agent_name(self, known: JsonObject) -> str | None:
        """Return the agent's name from the run or from its session, `known`."""
        return _text(self.document, "agent_name") or _text(known, "agent_name")

    def to_assignment(self, identity: RunnerIdentity, details: RunDetails, now: datetime) -> Assignment:
        """Return the assignment.

        `timeout_at` is not used: it limits how long a run may wait for a worker, not how long it may take.

        Raises:
            UnusableRun: A field is missing or invalid.
        """
        known = details.session
        mode = self.mode
        parameters = self.document.get("parameters")
        if not isinstance(parameters, dict):
            raise UnusableRun(f"invalid_invocation: parameters are {parameters!r}, expected an object")
        try:
            for document in (self.document, details.blueprint):
                check_interoperable(document, MAX_DEPTH - 1)
        except NotInteroperable as error:
            raise UnusableRun(f"invalid_invocation: {error}") from error
        executor_session_id = known.get("executor_session_id")
        if mode == "resume" and not isinstance(executor_session_id, str):
            raise UnusableRun(
                f"session_not_found: session {self.session_id} has no executor session to go on with; start a new one"
            )
        attempt = self.document.get("attempt")
        blueprint, commands_dir = _blueprint(self.agent_name(known), identity, details)
        try:
            loaded = understand_blueprint(Path(identity.project_dir) / "blueprint", blueprint)
            asked = NewRun(
                parameters=parameters,
                blueprint=loaded,
                run_id=self.run_id,
                session_id=self.session_id,
                executor_session_id=str(executor_session_id) if mode == "resume" else None,
                project_dir=_text(self.document, "project_dir") or _text(known, "project_dir"),
                executor_config=identity.config | ({} if commands_dir is None else {"commands_dir": commands_dir}),
                executor=Executor(identity.profile, Path(identity.command)),
                metadata={name: value for name in PASSED_ON if (value := self.document.get(name)) is not None},
            )
            place = Reception(os.environ, Path(), identity.project_dir, is_queued=False)
            accepted = accept(asked, place)
        except (RunnerError, NotInteroperable) as error:
            raise UnusableRun(f"invalid_invocation: {error}") from error
        return Assignment(
            key=RunKey(self.run_id, attempt if isinstance(attempt, int) and attempt > 0 else 1),
            session=accepted.session,
            run=replace(accepted.run, profile=None),
            is_resolved=details.is_resolved,
            queued_seconds=_age_seconds(self.document.get("created_at"), now),
            terminate_seconds=TERMINATE_SECONDS,
        )


def offered_run(document: JsonObject) -> OfferedRun | None:
    """Return an offered run; None if it lacks the ids that even a refusal needs."""
    run_id, session_id = document.get("run_id"), document.get("session_id")
    return OfferedRun(run_id, session_id, document) if is_name(run_id) and is_name(session_id) else None


def _blueprint(agent_name: str | None, identity: RunnerIdentity, details: RunDetails) -> tuple[JsonObject, str | None]:
    """Return the blueprint, and the folder of its command if the executor needs `commands_dir`.

    For an agent of this worker, the worker's own fields are the base, and the server's fields override them.
    """
    name = agent_name or identity.profile
    own = identity.agent(name)
    fields: JsonObject = {"name": name, **(_set_fields(own.document) if own is not None else {})}
    commands_dir = own.commands_dir if own is not None else None
    if identity.executor_type == "procedural":
        fields["type"] = "procedural"
    fields |= _set_fields(details.blueprint or {})
    if (script := details.script) is not None:
        fields["command"], commands_dir = shlex.quote(script.file), str(script.folder)
        if script.parameters_schema is not None:
            fields.setdefault("parameters_schema", script.parameters_schema)
    if fields.get("type") == "procedural":
        fields.setdefault("parameters_schema", {"type": "object"})  # without a schema the server accepts any parameters
    return with_typed_servers(fields), commands_dir


def _set_fields(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if value is not None}


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _age_seconds(created_at: JsonValue, now: datetime) -> float:
    try:
        moment = datetime.fromisoformat(created_at) if isinstance(created_at, str) else now
    except (ValueError, OverflowError):
        return 0.0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (now - aware).total_seconds())


MAX_SESSIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """A blueprint, and whether the server has filled in its placeholders."""

    document: JsonObject
    is_resolved: bool


class Blueprints:
    """The blueprints of runs. Those of sessions that began on this worker are cached.

    A resume uses the blueprint that its session began with. The server would fill the placeholders of a resume with
    the parameters of the resume, which lack those of the start.
    """

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment
        self._begun: OrderedDict[str, Found] = OrderedDict()

    async def of_run(self, run: JsonObject, session_id: str, agent_name: str | None) -> Found | None:
        """Return a run's blueprint; None for a run without an agent, or with one that the server does not know.

        Raises:
            UnusableRun: The agent refers to an MCP server that the server does not know.
            CoordinatorUnavailable: The server does not answer now.
        """
        is_resume = run.get("type") == "resume_session"
        if is_resume and session_id in self._begun:
            self._begun.move_to_end(session_id)
            return self._begun[session_id]
        handed_out = run.get("resolved_agent_blueprint")
        found = Found(handed_out, is_resolved=True) if isinstance(handed_out, dict) else None
        if found is None and agent_name is not None:
            found = await self._of_agent(agent_name)
        if not is_resume and found is not None:
            self._begun[session_id] = found
            if len(self._begun) > MAX_SESSIONS:
                self._begun.popitem(last=False)
        return found

    async def _of_agent(self, name: str) -> Found | None:
        answer = await self._enrolment.ask("GET", f"/agents/{quote(name, safe='')}")
        if not answer.is_success:
            return None
        document = answer.document
        if isinstance(servers := document.get("mcp_servers"), dict):
            document = {**document, "mcp_servers": {key: await self._resolved(one) for key, one in servers.items()}}
        return Found(document, is_resolved=False)

    async def _resolved(self, server: JsonValue) -> JsonValue:
        """Return an MCP server with a reference to the registry resolved, as the server resolves references."""
        if not isinstance(server, dict) or not isinstance(ref := server.get("ref"), str):
            return server
        answer = await self._enrolment.ask("GET", f"/mcp-servers/{quote(ref, safe='')}")
        if not answer.is_success:
            raise UnusableRun(f"invalid_invocation: the server does not give MCP server {ref!r}: {answer.reason}")
        known = answer.document
        defaults, config = known.get("default_config"), server.get("config")
        merged = {**(defaults if isinstance(defaults, dict) else {}), **(config if isinstance(config, dict) else {})}
        return {"url": known.get("url"), "config": merged}

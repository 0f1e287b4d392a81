"""The two runners that a replay compares, each behind the same three profiles, and the machine around them."""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

ROOT: Final = Path(__file__).parents[2]
DONE: Final = {"completed", "failed", "stopped"}
PROFILES: Final = {
    "existing": {"echo": "echo-executor", "claude": "claude-code", "procedural": "test-procedural"},
    "ao": {"echo": "echo-profile", "claude": "claude-profile", "procedural": "procedural-profile"},
}
_SUBREAPER: Final = 36


def wait(condition: Callable[[], Any], seconds: float, pause: float = 0.02) -> Any:
    """Return what a condition gives as soon as it is true, or its last value."""
    ends_at = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < ends_at:
        time.sleep(pause)
    return found


def adopt_orphans() -> None:
    """Have every process that loses its parent become a child of this one, so that none escapes the count."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def descendants() -> dict[int, str]:
    """Return the living processes below this one, with their command lines."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(stat.parent.name))
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for pid in parents.get(waiting.pop(), []):
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                waiting.append(pid)
    return found


def kill_all() -> None:
    """End whatever a scenario left."""
    while left := descendants():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait(lambda: not descendants(), 1)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@dataclass
class Coordinator:
    """A client of the real server."""

    url: str

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def start(self, prompt: str | None = None, agent: str | None = None, **fields: Any) -> tuple[str, str]:
        """Add a run and return its id and that of its session."""
        parameters = {} if prompt is None else {"prompt": prompt}
        return self._post({"type": "start_session", "agent_name": agent, "parameters": parameters, **fields})

    def resume(self, session_id: str, prompt: str, **fields: Any) -> tuple[str, str]:
        return self._post(
            {"type": "resume_session", "session_id": session_id, "parameters": {"prompt": prompt}, **fields}
        )

    def _post(self, body: dict[str, Any]) -> tuple[str, str]:
        answer = self.http.post("/runs", json=body)
        answer.raise_for_status()
        return answer.json()["run_id"], answer.json()["session_id"]

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/runs/{run_id}").json()
        return found

    def ended(self, run_id: str, seconds: float) -> str:
        """Wait until a run has ended, and return its status then."""
        wait(lambda: self.run(run_id)["status"] in DONE, seconds)
        return str(self.run(run_id)["status"])

    def began(self, run_id: str, seconds: float = 20) -> None:
        """Wait until a run is running, and bound to its executor."""
        session_id = self.run(run_id)["session_id"]
        wait(lambda: self.run(run_id)["status"] == "running" and self.status(session_id) == "running", seconds)

    def status(self, session_id: str) -> str:
        return str(self.http.get(f"/sessions/{session_id}").json()["session"]["status"])

    def result(self, session_id: str) -> Any:
        """Return the text or data of a session's result, or None."""
        answer = self.http.get(f"/sessions/{session_id}/result")
        document = answer.json()
        return (document["result_data"] or document["result_text"]) if answer.is_success else None

    def runs_of(self, session_id: str) -> list[dict[str, Any]]:
        return [run for run in self.http.get("/runs").json()["runs"] if run["session_id"] == session_id]


@dataclass
class Gate:
    """A TCP proxy before the server that can be shut: nobody is let in, and who was inside is thrown out."""

    url: str
    is_shut: bool = False
    _open: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def shut(self) -> None:
        self.is_shut = True
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        target = httpx.URL(self.url)
        while True:
            inner, _ = self._listener.accept()
            if self.is_shut:
                inner.close()
                continue
            outer = socket.create_connection((target.host, target.port or 80))
            self._open += [inner, outer]
            threading.Thread(target=self._carry, args=(inner, outer), daemon=True).start()

    def _carry(self, inner: socket.socket, outer: socket.socket) -> None:
        with inner, outer, contextlib.suppress(OSError):
            while True:
                for ready in select.select([inner, outer], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (outer if ready is inner else inner).sendall(data)


@dataclass
class Rival:
    """One of the runners."""

    kind: str
    folder: Path
    existing_runner: Path | None
    python: Path
    environ: dict[str, str] = field(default_factory=dict)
    """What scenarios add to its environment, such as the address of a model."""

    def prepare(self) -> None:
        """Write its profiles and the odd executor."""
        odd = f"import sys\nsys.path.insert(0, {str(ROOT / 'tests' / 'foreign_coordinator')!r})\n"
        odd += f"from odd_executor import main\nmain({self.kind!r})\n"
        if self.existing_runner is not None and self.kind == "existing":
            shutil.copytree(self.existing_runner.parent, self.folder / "runner", ignore=shutil.ignore_patterns("tests"))
            path = self.folder / "runner" / "odd"
            profile = {"type": "autonomous", "command": "odd"}
            stays = {"config": {"stays": True}, "lifecycle": "persistent"}
            for name, fields in {"odd": profile, "odd-stays": {**profile, **stays}}.items():
                (self.folder / "runner" / "profiles" / f"{name}.json").write_text(json.dumps(fields))
        else:
            path = self.folder / "odd"
            profiles = self.folder / "home" / "profiles"
            profiles.mkdir(parents=True)
            rest = {"lifecycle": "persistent", "tags": ["uv"]}
            variables = {"pass": ["CLAUDE_CONFIG_DIR", "HOME", "IS_SANDBOX", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]}
            claude = {"executor": "claude-code", "config": {"permission_mode": "bypassPermissions", "model": "opus"}}
            written: dict[str, dict[str, Any]] = {
                "echo-profile": {"executor": "echo", **rest},
                "claude-profile": {**claude, **rest, "environment": variables},
                "procedural-profile": {"executor": "procedural", "tags": ["uv"]},
            }
            for name, fields in written.items():
                (profiles / f"{name}.yaml").write_text(json.dumps(fields))
        path.write_text(f"#!{sys.executable}\n{odd}")
        path.chmod(0o755)

    @contextlib.contextmanager
    def started(self, url: str, profile: str, *more: str) -> Iterator["Started"]:
        """Start it for a profile: `echo`, `claude`, `procedural`, `odd` or `odd-stays`, whose sessions have turns.

        Nothing of it is left afterwards.
        """
        project = self.folder / f"project-{time.time_ns()}"
        project.mkdir()
        environ = {**os.environ, "AGENT_ORCHESTRATOR_API_URL": url, "PROJECT_DIR": str(project), **self.environ}
        name = PROFILES[self.kind].get(profile, profile)
        if self.kind == "existing":
            command = [
                str(self.python),
                str(self.folder / "runner" / "agent-runner"),
                "--profile",
                name,
                "--tags",
                "uv",
            ]
            shims = str(self.python.parent.parent.parent / "bin")
            environ["PATH"] = f"{shims}:{self.python.parent}:{environ['PATH']}"
        else:
            path = str(self.folder / "odd") if profile.startswith("odd") else name
            home = ["--home", str(self.folder / "home"), "--concurrency", "16"]
            command = [
                str(Path(sys.executable).parent / "ao"),
                "worker",
                "--coordinator",
                url,
                "--profile",
                path,
                *home,
            ]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen([*command, *more], cwd=project, env=environ, stdout=log, stderr=log)
        known = httpx.Client(base_url=url, timeout=10)

        def name_of_it() -> str:
            runners = known.get("/runners").json()["runners"]
            return next((one["runner_id"] for one in runners if one["project_dir"] == str(project)), "")

        started = Started(process, project, known, str(wait(name_of_it, 20)))
        try:
            if not started.runner_id:
                raise RuntimeError(f"it does not register; see {self.folder / 'log'}")
            yield started
        finally:
            started.leave()
            kill_all()


@dataclass
class Started:
    """A runner that serves."""

    process: subprocess.Popen[bytes]
    project: Path
    known: httpx.Client
    runner_id: str

    def leave(self) -> int:
        """Send it away, and return how many processes live on.

        The server has to know first: its open poll would claim the next run for a runner that has left.
        """
        with contextlib.suppress(httpx.HTTPError):
            self.known.delete(f"/runners/{self.runner_id}")
            wait(lambda: self.runner_id not in self.known.get("/runners").text, 3)
        for _ in range(3):
            if self.process.poll() is None:
                self.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(8)
        left = descendants()
        left.pop(self.process.pid, None)
        return len(left)

    def peak_megabytes(self) -> int:
        """Return the most memory that it had."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) // 1024
        return 0

"""Who gives a run its process. The usual launcher starts a new one for each run; see `ao_runner.pool` for others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from ao_protocol.describe import Description
from ao_protocol.framing import encode_line
from ao_protocol.wire import JsonObject
from ao_runner.inquiry import describe
from ao_runner.locate import Executor
from ao_runner.order import RunOrder
from ao_runner.spawn import Child, Tail
from ao_runner.supervision import STDERR_TAIL_BYTES

How = Literal["cold", "parked", "prepared", "kept"]


@dataclass(slots=True)
class Launched:
    """A process for one run. The `with` block ends it, unless `is_kept` says that it stays for another run."""

    child: Child
    how: How = "cold"
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_TAIL_BYTES))
    may_stay: bool = False
    is_kept: bool = False

    @property
    def containment(self) -> str:
        """What ends whatever the process starts."""
        return "lifeline" if self.child.is_tied else "process_group"

    def first_line(self, invocation: JsonObject) -> bytes:
        """Return what is written to the process to begin the run."""
        return encode_line(invocation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.close()


class Launcher(Protocol):
    """Knows executors, and gives processes of them."""

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return what an executor says of itself; raises as `ao_runner.inquiry.describe` does."""

    def launch(self, order: RunOrder, description: Description, environment: Mapping[str, str]) -> Launched:
        """Return a process that waits for the run's invocation.

        Raises:
            OSError: it could not be started.
        """


class ColdLauncher:
    """Starts a process for each run and asks each executor anew."""

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Ask the executor."""
        return await describe(executor, environment)

    def launch(self, order: RunOrder, description: Description, environment: Mapping[str, str]) -> Launched:
        """Start a process."""
        return Launched(Child([str(order.executor.path)], environment, Path(order.session.project_dir), lifeline=True))

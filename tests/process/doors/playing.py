"""What a door is: it plays requests of the table and says what came of them.

What a door `lacks`, it lacks for the reason that stands there; it is not asked for requests that set such a field. A
field that it ought to take, and does not, is among the known differences of `known.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.process.doors.spelling import OPTIONS
from tests.process.doors.stored import News, prepare
from tests.process.doors.table import Accepted, Refused

Request = Accepted | Refused
Ask = Callable[[Mapping[str, Any]], str | None]
"""Asks for a run, and returns why it was refused; None if it was not."""
BOUND_SECONDS: Final = 60.0
AT_ONCE: Final = "the run is performed at once, by the process that is asked"
NO_SESSION_ASKS: Final = "a person or a program asks, and no session is to hear of the end"
MAKES_IDS: Final = "it makes the ids, and returns them"
GOES_ON: Final = "the session has its own"
NO_QUEUE: Final = dict.fromkeys(("priority", "not_before", "requeue", "requires"), AT_ONCE)
NO_ASKING_SESSION: Final = dict.fromkeys(("parent_session_id", "execution_mode"), NO_SESSION_ASKS)
OWN_IDS: Final = dict.fromkeys(("session_id", "run_id"), MAKES_IDS)
OF_A_SESSION: Final = dict.fromkeys(("agent", "session_id", "project_dir", "executor_config"), GOES_ON)
NO_RESUME: Final = {"session": "a door of its own continues sessions"}
SERVERS_SCRIPT: Final = {"model_script": "the operator of the server decides that no model is asked"}

NOT_OF_PERFORMED: Final = {"model_script": "who performs a run at once plays the script, and no worker needs it"}
NO_AGENT_OF_A_COMMAND: Final = {"no agent": "a command names the file of an agent"}
NO_BYTES: Final = dict.fromkeys(
    ("bytes", "a further run with bytes", "an attachment without a place"), "an option names a file"
)
ASKS_A_MODEL: Final = {"no profile": "it would start a real model"}


@dataclass(frozen=True)
class Outcome:
    """What came of a request: the row that it left, and why it was refused. A refused one leaves no row."""

    row: dict[str, Any] | None
    refusal: str | None = None


class Door(ABC):
    """One way to ask for runs."""

    lacks: ClassVar[Mapping[str, str]] = {}
    unstored: ClassVar[Mapping[str, str]] = {}
    """The columns that its rows do not have."""
    performs: ClassVar[bool] = False
    """Whether it performs the run at once. Then the run itself refuses parameters, by its terminal event, and stores
    that: programs that read events need one."""
    is_stored: ClassVar[bool] = True
    """Whether it leaves rows of a store. If not, the executor shows what it was told."""
    always: ClassVar[Mapping[str, Any]] = {}
    """The columns of every request that does not say so."""
    given: ClassVar[Mapping[str, Any]] = {}
    """What the door has for all its requests, so that none needs to say it."""
    not_played: ClassVar[Mapping[str, str]] = {}
    """Requests that it is not asked for, each with the reason."""
    names: ClassVar[Mapping[str, str]] = OPTIONS

    def takes(self, name: str, request: Request) -> bool:
        """Return whether it is asked for a request."""
        said = {field for field, value in request.asked.items() if (field, value) not in self.given.items()}
        return name not in self.not_played and not said & self.lacks.keys()

    @abstractmethod
    def opened(self, folder: Path) -> Any:
        """Return a context manager that yields an `Ask` for the store in `folder / "home"`."""

    def play(self, requests: Mapping[str, Request], folder: Path) -> dict[str, Outcome]:
        """Ask for all requests, each after the other, and find the row of each."""
        home = folder / "home"
        prepare(home, self.given)
        outcomes, news = {}, News(home)
        with self.opened(folder) as ask:
            for name, request in requests.items():
                refusal = ask(request.asked)
                outcomes[name] = Outcome(news.row(), refusal)
        return outcomes

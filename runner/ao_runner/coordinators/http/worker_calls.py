"""The calls of a worker to a server that speaks the port: each is the body of one `POST /worker/{name}`.

A call may be repeated after a lost answer. A server that does not know a worker answers 401, and the worker joins again
under the same name.
"""

from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Assignment, EventBatch, InputAnswer
from ao_runner.run_events import RunKey
from ao_runner.store.ownership import MAX_LEASE_SECONDS, REMOTE
from ao_runner.store.records import RunRecord
from ao_runner.store.worker_table import Offer

VERSION: Final = 1
"""What `GET /health` calls `worker_api`."""
WAIT_SECONDS: Final = 10.0
"""How long `claim` and `orders` wait for news."""
MAX_HELD: Final = 100_000
MAX_SEQ: Final = 2**53 - 1
MAX_OFFER_CHARACTERS: Final = 1000

Held = Annotated[list[RunKey], Field(max_length=MAX_HELD)]
Seq = Annotated[int, Field(ge=1, le=MAX_SEQ)]


def _one_line(text: str) -> str:
    if b"\n" in text.encode():  # raises ValueError for half a pair of surrogates
        raise ValueError("expected one line without its end")
    return text


Line = Annotated[
    str, AfterValidator(_one_line), Field(description="One event as a line of JSON, without the line end.")
]


class Call(BaseModel):
    """What every call contains."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: ClassVar[str]
    worker_id: str = Field(pattern=f"^{REMOTE}[A-Za-z0-9._-]{{1,100}}$")


class Join(Call):
    """Announce a worker, or announce it again to a server that has been restarted."""

    name = "join"
    offer: Offer
    held: Held = []
    """The runs that the worker has claimed."""

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse an offer that no store can keep."""
        offer = self.offer
        if offer.owner != self.worker_id:
            raise ValueError(f"offer.owner is {offer.owner[:100]!r}, expected the worker_id")
        if not 1 <= offer.lease_seconds <= MAX_LEASE_SECONDS:
            raise ValueError(f"a lease has 1 to {MAX_LEASE_SECONDS:g} seconds, found {offer.lease_seconds:g}")
        if not 0 <= offer.slots <= MAX_HELD:
            raise ValueError(f"a worker has 0 to {MAX_HELD} slots, found {offer.slots}")
        texts = (offer.host or "", *offer.profiles, *offer.tags, *offer.shared, *offer.pausing)
        if not offer.host or not all(text.isprintable() and len(text) <= MAX_OFFER_CHARACTERS for text in texts):
            raise ValueError("expected a host, and printable names and tags of at most 1000 characters")
        return self


class Claim(Call):
    """Wait for runs. The same `claim_id` again has the same answer."""

    name = "claim"
    slots: int = Field(ge=1, le=1000)
    claim_id: str = Field(max_length=100)


class CallOfRun(Call):
    """A call about one attempt at a run."""

    key: RunKey


class Started(CallOfRun):
    """Say that a run begins."""

    name = "started"


class Events(CallOfRun):
    """Hand over consecutive events."""

    name = "events"
    first_seq: Seq
    lines: list[Line] = Field(min_length=1)

    @property
    def batch(self) -> EventBatch:
        """The same for the port."""
        return EventBatch(self.key, self.first_seq, [line.encode() for line in self.lines])


class Terminal(CallOfRun):
    """Hand over the last event of a run."""

    name = "terminal"
    seq: Seq
    line: Line
    stays: bool = False


class Heartbeat(Call):
    """Keep the leases of the runs that the worker holds."""

    name = "heartbeat"
    held: Held
    outbox_seconds: float = Field(0.0, ge=0, description="The age of the oldest event that is not delivered.")


class AskOrders(Call):
    """Wait for orders. `told` has the number of requests to stop that the worker knows of each run.

    `answered` has the requests to a person, as run and request, whose answers the worker has got.
    """

    name = "orders"
    told: dict[str, int] = Field({}, max_length=MAX_HELD)
    answered: list[tuple[str, str]] = Field([], max_length=MAX_HELD)
    drains: bool = Field(
        True, description="Whether the worker drains already. Those that do not say so cannot be told."
    )


class Decide(CallOfRun):
    """Record an answer to a request, unless there is one; the response has the one that counts."""

    name = "decide"
    request_id: str = Field(min_length=1, max_length=MAX_OFFER_CHARACTERS)
    answer: JsonObject


class Release(CallOfRun):
    """Let go of a run: with its record, or without one where it has not begun."""

    name = "release"
    record: RunRecord | None = None


class Leave(Call):
    """Say goodbye."""

    name = "leave"


ASSIGNMENTS: Final = TypeAdapter(list[Assignment])
SEQ: Final = TypeAdapter(int)
KEYS: Final = TypeAdapter(list[RunKey])
STOPS: Final = TypeAdapter(dict[str, int])
ANSWER: Final = TypeAdapter(JsonObject)
ANSWERS: Final = TypeAdapter(list[InputAnswer])

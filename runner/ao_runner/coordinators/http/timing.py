"""How long the HTTP coordinator waits, for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait has its bound here; how long a poll lasts, and how often a heartbeat is due, the server says."""

    connect_seconds: float = 5.0
    answer_seconds: float = 20.0
    """For one request, from the connection to the last byte of the answer."""
    poll_margin_seconds: float = 10.0
    """What a poll may take longer than the server says."""
    shortest_poll_seconds: float = 0.5
    """A poll that brought nothing any sooner is followed by a pause, so that no server makes a worker spin."""
    idle_seconds: float = 30.0
    """After so long `claim` and `orders` return with nothing."""
    watch_seconds: float = 2.0
    """How often a worker that does not poll asks how its runs stand."""
    missed_seconds: float = 2.0
    """How long a run is claimed for this worker, and its answer has not come, before it counts as missed."""
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 30.0
    duplicate_pause_seconds: float = 5.0
    duplicate_seconds: float = 180.0
    """How long to wait for a worker of the same identity to be forgotten: a crashed one is, after about 150 s."""
    dead_poll_seconds: float = 1.0
    """How long the server may take to end the poll of a killed worker; it looks twice a second."""
    farewell_seconds: float = 5.0

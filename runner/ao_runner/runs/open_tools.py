"""How many tool calls of a run may be open at once. Pure.

The runner has to know each of them, to close it when the run ends (AOX-093): in memory as long as the run goes on, and
in the note of every acknowledgement, by which the next worker ends the run of one that died. So an executor that opens
calls without end would take the memory of a worker from all other runs (AOX-233), and its time for writing notes.
"""

from collections.abc import Mapping
from typing import Final

MOST_OPEN_TOOLS: Final = 1000
"""Agents that work in parallel have a few dozen."""
MOST_CHARACTERS: Final = 256 * 1024
"""Of the ids and names of all of them. A model's API makes ids of about 30 characters."""


def has_room_for(call: str, name: str, open_tools: Mapping[str, str]) -> bool:
    """Tell whether one more tool call may be open; `open_tools` are the names of the others by their ids."""
    if len(open_tools) >= MOST_OPEN_TOOLS:
        return False
    return len(call) + len(name) + sum(map(len, open_tools)) + sum(map(len, open_tools.values())) <= MOST_CHARACTERS

"""The runs that a worker has lately ended, so that one that is handed out again is not performed again."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from ao_runner.run_events import RunKey

REMEMBERED: Final = 10_000


@dataclass(slots=True)
class RecentRuns:
    """Knows the last attempt at each of the last runs."""

    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def add(self, key: RunKey) -> None:
        """Remember that an attempt has ended."""
        self._attempts[key.run_id] = max(key.attempt, self._attempts.pop(key.run_id, 0))
        if len(self._attempts) > REMEMBERED:
            self._attempts.popitem(last=False)

    def knows(self, key: RunKey) -> bool:
        """Tell whether that attempt, or a later one, has ended."""
        return self._attempts.get(key.run_id, 0) >= key.attempt

"""A coordinator that goes back in time: it keeps everything, and says that it has less."""

from ao_runner.coordinators.port import CoordinatorUnavailable, EventBatch
from ao_runner.coordinators.stored_queue import StoreCoordinator


class GoingBack(StoreCoordinator):
    """Acknowledges one event of a batch, then fewer than before, then fails after it has kept all, and begins anew."""

    turn = 0

    async def events(self, batch: EventBatch) -> int:
        """Keep events and say something else."""
        last = await super().events(batch)
        self.turn += 1
        match self.turn % 4:
            case 1:
                return batch.first_seq
            case 2:
                return max(0, batch.first_seq - 3)
            case 3:
                raise CoordinatorUnavailable("here", "it says so after it has kept them")
            case _:
                return last

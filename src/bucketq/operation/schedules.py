"""Operations on schedules."""

from datetime import datetime

import msgspec

from bucketq.schedule import Schedule
from bucketq.state import QueueState


class PutSchedule(msgspec.Struct, frozen=True, gc=False):
    """Add a schedule, or replace the one of its name; tell how it stands."""

    schedule: Schedule
    now: datetime

    def __call__(self, state: QueueState) -> Schedule | None:
        state.put_schedule(self.schedule, self.now)
        return state.schedules.get(self.schedule.name)


class RemoveSchedule(msgspec.Struct, frozen=True, gc=False):
    """Take a schedule out."""

    name: str

    def __call__(self, state: QueueState) -> None:
        state.remove_schedule(self.name)


class ListSchedules(msgspec.Struct, frozen=True, gc=False):
    """Tell which schedules there are."""

    def __call__(self, state: QueueState) -> list[Schedule]:
        return list(state.schedules)


class Fire(msgspec.Struct, frozen=True, gc=False):
    """Enqueue the jobs of the ticks that have come."""

    now: datetime

    def __call__(self, state: QueueState) -> None:
        state.fire(self.now)

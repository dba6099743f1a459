"""Operations on schedules."""

from datetime import datetime

import msgspec

from bucketq.errors import ConfigurationError, ForbiddenError
from bucketq.schedule import SCHEDULES_MAX, Schedule
from bucketq.state import QueueState


class PutSchedule(msgspec.Struct, frozen=True, gc=False):
    """Add a schedule, or replace the one of its name; tell how it stands."""

    schedule: Schedule
    now: datetime
    # Whether a worker asks, which makes the schedules of its handlers and leaves alone those of producers.
    of_worker: bool = False

    def __call__(self, state: QueueState) -> Schedule | None:
        if self.of_worker:
            self._check_place(state)
        state.put_schedule(self.schedule, self.now)
        return state.schedules.get(self.schedule.name)

    def _check_place(self, state: QueueState) -> None:
        known = state.schedules.get(self.schedule.name)
        if known is not None and not known.is_of_handler:
            raise ForbiddenError(
                f"schedule {known.name!r} has arguments that a producer chose: to replace it, be one"
            )
        if known is None and len(state.schedules) >= SCHEDULES_MAX // 2:
            raise ConfigurationError(
                f"workers add schedules up to {SCHEDULES_MAX // 2}, which leaves room for producers;"
                " unschedule some first"
            )


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

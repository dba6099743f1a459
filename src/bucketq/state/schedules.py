"""Schedules: jobs that are enqueued again and again, by the clock."""

from datetime import datetime

from bucketq.errors import ScheduleNotFoundError
from bucketq.jobline import line_bytes
from bucketq.schedule import Schedule
from bucketq.state.arrivals import WithArrivals
from bucketq.state.undo import Undoable


class WithSchedules(WithArrivals, Undoable):
    """Adding, removing and firing schedules."""

    def put_schedule(self, schedule: Schedule, now: datetime) -> None:
        """Add a schedule, or replace the one of its name."""
        self._make_room(line_bytes(schedule.job))
        self.schedules = self.schedules.put(schedule, now)
        self.changes += 1

    def remove_schedule(self, name: str) -> None:
        """Take a schedule out; what it has enqueued stays."""
        if self.schedules.get(name) is None:
            raise ScheduleNotFoundError(f"there is no schedule {name!r}; `schedules` lists those there are")
        self.schedules = self.schedules.without(name)
        self.changes += 1

    def fire(self, now: datetime) -> None:
        """Enqueue the jobs of the ticks that have come, each once."""
        if self.schedules.is_due(now):
            before = self.schedules
            fired = before.fired(now, lambda job: self.attempt(lambda state: state.enqueue(job)))
            if fired is not before:
                self.schedules = fired
                self.changes += 1

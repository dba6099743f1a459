"""Operations that pause, resume and limit."""

import msgspec

from bucketq.limits import Limit, Limits
from bucketq.state import QueueState


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Let no job of an entrypoint begin, or (None) none at all."""

    entrypoint: str | None

    def __call__(self, state: QueueState) -> None:
        state.set_limits(state.limits.with_pause(self.entrypoint))


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Let the jobs of an entrypoint begin again, or (None) those of all that are not paused by name."""

    entrypoint: str | None

    def __call__(self, state: QueueState) -> None:
        state.set_limits(state.limits.without_pause(self.entrypoint))


class SetLimit(msgspec.Struct, frozen=True, gc=False):
    """Set the limit of an entrypoint or of a limit key; one without numbers removes it."""

    entrypoint: str | None
    limit_key: str | None
    limit: Limit

    def __call__(self, state: QueueState) -> None:
        state.set_limits(state.limits.with_limit(self.entrypoint, self.limit_key, self.limit))


class ReadLimits(msgspec.Struct, frozen=True, gc=False):
    """Tell what is limited and paused."""

    def __call__(self, state: QueueState) -> Limits:
        return state.limits

"""Handler: a function that is a job's code, with what is asked of its jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, Unpack

from bucketq.app.arguments import Arguments, result_decoder
from bucketq.app.call import Call
from bucketq.app.running import Running
from bucketq.duration import Duration
from bucketq.errors import ConfigurationError, PayloadError
from bucketq.job import Job
from bucketq.new_job import JobOptions
from bucketq.retry import RetryPolicy
from bucketq.schedule import Schedule

if TYPE_CHECKING:
    from bucketq.app.app import App

P = ParamSpec("P")
R = TypeVar("R")

# In the worker's event loop (async functions only), a thread, or a process of its own.
RunsIn = Literal["loop", "thread", "process"]
Missed = Literal["skip", "last", "all"]


class Ticks(NamedTuple):
    """When a handler's jobs are enqueued by themselves."""

    cron: str | None = None
    every: Duration | None = None
    tz: str = "UTC"
    missed: Missed = "last"


@dataclass(frozen=True)
class Handler(Generic[P, R]):
    """What `@app.job` makes of a function. Calling it still calls the function.

    @app.job(max_attempts=5)
    async def send_email(to: str, urgent: bool = False) -> None: ...

    await send_email.enqueue(to="alice@example.com")
    await send_email.using(delay=60).enqueue("bob@example.com", urgent=True)
    """

    app: "App"
    function: Callable[..., Any]
    entrypoint: str
    runs_in: RunsIn
    retry: RetryPolicy
    priority: int
    options: JobOptions
    ticks: Ticks | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        # What reads its arguments cannot travel to another process, and is made anew there.
        return {name: value for name, value in vars(self).items() if name != "_arguments"}

    @property
    def arguments(self) -> Arguments:
        """Its parameters; for all that `using` makes of a handler they are read once."""
        return self.app.handlers[self.entrypoint]._arguments

    @cached_property
    def _arguments(self) -> Arguments:
        # When they are first needed, so that resources may be defined after it.
        return Arguments(self.function, self.app.providers.types | {Running})

    def using(self, *, priority: int | None = None, **options: Unpack[JobOptions]) -> "Handler[P, R]":
        """The same handler, with other options for the jobs that are enqueued through it."""
        priority = self.priority if priority is None else priority
        merged: JobOptions = {**self.options, **options}
        return replace(self, priority=priority, options=merged)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A job with these arguments, to be enqueued with others. Raises PayloadError."""
        return Call(self.entrypoint, self.arguments.encode(args, kwargs), self.priority, self.options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Enqueue a job with these arguments. Raises PayloadError if they do not fit the function."""
        [job] = await self.app.enqueue(self.call(*args, **kwargs))
        return job

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """`enqueue` for code without async; any number of threads may call it."""
        [job] = self.app.enqueue_sync(self.call(*args, **kwargs))
        return job

    async def enqueue_many(self, arguments: Iterable[Mapping[str, Any]]) -> Sequence[str]:
        """Enqueue any number of jobs in one commit, each with its arguments by name; return their ids.

        await send_email.enqueue_many({"to": to} for to in addresses)
        """
        calls = (self._call_with(one) for one in arguments)
        return await self.app.enqueue_many(self, calls)

    async def schedule(
        self,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        missed: Missed = "last",
    ) -> Schedule:
        """Enqueue a job again and again, as `Queue.schedule` does; the name is the entrypoint's by default.

        await report.schedule(cron="30 9 * * MON-FRI", tz="Europe/Vienna")
        """
        call = self._call_with(arguments or {})
        queue = await self.app.opened()
        return await queue.schedule(
            name or self.entrypoint,
            call.entrypoint,
            call.payload,
            call.priority,
            cron=cron,
            every=every,
            tz=tz,
            missed=missed,
            **call.options,
        )

    async def make_schedule(self) -> None:
        """Make sure of the schedule that its `cron` or `every` asks for, if any; each worker does.

        Raises ConfigurationError if the function cannot be called without arguments.
        """
        if self.ticks is None:
            return
        try:
            await self.schedule(**self.ticks._asdict())
        except PayloadError as error:
            raise ConfigurationError(
                f"{self.entrypoint} runs by the clock, so all of its parameters need defaults: {error}"
            ) from error

    async def result(self, job: Job | str, timeout: Duration | None = None) -> R:
        """Wait until a job is finished, and return what it returned. Raises what `Queue.result` raises."""
        queue = await self.app.opened()
        decoded: R = result_decoder(self.arguments.result_type)(await queue.result(job, timeout))
        return decoded

    def _call_with(self, arguments: Mapping[str, Any]) -> Call:
        if not isinstance(arguments, Mapping):
            raise ConfigurationError(
                f"{self.entrypoint} takes its arguments by name, such as {{'to': 'alice'}}, not {arguments!r}"
            )
        return Call(self.entrypoint, self.arguments.encode((), dict(arguments)), self.priority, self.options)

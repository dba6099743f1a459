"""Threads: where plain functions run, one at a time in each; a thread is kept for the next function.

Nothing can stop a thread. A function that nobody waits for any more *lingers* until it returns. The
threads are daemons: one that never returns does not keep the program from ending.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Executor):
    """As many threads as functions run at the same time.

    `on_return` is called, in its thread, when a function returns that lingered.
    """

    def __init__(self, on_return: Callable[[], object]) -> None:
        self.lingering = 0
        self._on_return = on_return
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Have a function run; cancelling its future lets it linger."""
        call = _Call(partial(fn, *args, **kwargs), self)
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._started += 1
                threading.Thread(target=self._run, name="bucketq job", daemon=True).start()
        self._calls.put(call)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the idle threads end; what runs is not waited for."""
        for _ in range(self._started):
            self._calls.put(None)

    def abandoned(self, call: "_Call") -> None:
        """Nobody waits for this one any more."""
        with self._lock:
            if not call.lingers and not call.has_returned:
                call.lingers = True
                self.lingering += 1

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if not call.set_running_or_notify_cancel():
                self._note_return(call)
                continue
            try:
                result = call.function()
            except BaseException as error:
                self._note_return(call)
                call.set_exception(error)
            else:
                self._note_return(call)
                call.set_result(result)

    def _note_return(self, call: "_Call") -> None:
        # Before its caller hears of it, who may have the next one at hand.
        with self._lock:
            self._idle += 1
            call.has_returned = True
            if call.lingers:
                self.lingering -= 1
        if call.lingers:
            self._on_return()


class _Call(Future[Any]):
    def __init__(self, function: Callable[[], Any], threads: Threads) -> None:
        super().__init__()
        self.function = function
        self.lingers = False
        self.has_returned = False
        self._threads = threads

    def cancel(self) -> bool:
        if super().cancel():
            return True
        self._threads.abandoned(self)
        return False

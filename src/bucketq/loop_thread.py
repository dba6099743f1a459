"""LoopThread: an event loop in a thread of its own, for callers without async."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from bucketq.errors import QueueClosedError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any number of threads, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # Whoever is let in before it is closed is ended with the others, and nobody comes after them.
        self._entrance = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._loop.run_forever, name="bucketq", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run there, and wait for what it returns or raises."""
        with self._entrance:
            if not self._is_open or threading.current_thread() is self._thread:
                work.close()
                raise QueueClosedError(
                    "the queue is not open, or was called from within itself: use it inside `with`"
                )
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise QueueClosedError("the queue was closed while this call was under way") from None
        except BaseException:
            # Such as a KeyboardInterrupt: a dequeue that nobody waits for must keep no job.
            answer.cancel()
            raise

    def stop(self) -> None:
        """End what still runs there, and the thread."""
        with self._entrance:
            self._is_open = False
        asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all() -> None:
    # Other threads may still wait for their calls.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

"""Where handlers run: plain functions on threads, coroutines on one event loop.

All threads are daemons, so that a handler that never returns does not keep the process. asyncio is
loaded only for the first coroutine: it takes as long to load as all the rest.
"""
from __future__ import annotations

import inspect
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    import asyncio

THREADS_MAX = 32


def is_async(handler: Callable[..., Any]) -> bool:
    return (inspect.iscoroutinefunction(handler)
            or inspect.iscoroutinefunction(getattr(handler, "__call__", None)))


class Workers:
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._lock = threading.Lock()

    def start(self, job: Callable[[], None]) -> None:
        """Runs the job, which does not raise, on some thread."""
        if not self._idle.acquire(blocking=False) and self._threads < THREADS_MAX:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()
            self._idle.release()

    def close(self) -> None:
        """Threads that are free leave; the others are left alone."""
        for _ in range(self._threads):
            self._jobs.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def start_async(self, make: Callable[[], Any]) -> None:
        """Runs the coroutine, which does not raise, on the event loop."""
        self._submit(make())

    def run(self, handler: Callable[..., Any], *arguments: Any) -> Any:
        """Runs the handler, of either kind, and waits for it."""
        value = handler(*arguments)
        return self.wait(value) if inspect.isawaitable(value) else value

    def wait(self, awaitable: Any) -> Any:
        async def finish() -> Any:
            return await awaitable
        return self._submit(finish()).result()

    def _submit(self, coroutine: Any) -> Any:
        import asyncio
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run_loop, args=(self._loop,), daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.close()

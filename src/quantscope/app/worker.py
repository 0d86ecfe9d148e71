"""Do long work in a thread of marimo's, with progress in a `Job` and a way to stop it."""

from collections.abc import Callable, Iterator
from threading import Event, Lock
from time import monotonic
from typing import Any

import marimo as mo

from quantscope.app.mistake import mistake
from quantscope.app.widgets import Job
from quantscope.errors import QuantscopeError, StoppedError
from quantscope.progress import Progress

# Each tick is a message to the browser.
_SECONDS_BETWEEN_TICKS = 0.1

Work = Callable[[Progress], Iterator[Any]]


class Worker:
    """A thread for one piece of work at a time: starting another ends the one that runs.

    `news` is called, in the worker's thread, whenever the work yields and when it ends; a setter of
    `mo.state` in it reaches the page.
    """

    def __init__(self, job: Job, news: Callable[[], None]) -> None:
        self.job = job
        self._news = news
        self._stop = Event()
        self._changing = Lock()

    def start(self, work: Work) -> None:
        with self._changing:
            self._stop.set()
            stop = self._stop = Event()
            with self.job.hold_sync():
                self.job.running, self.job.error, self.job.what = True, "", ""
                self.job.done = self.job.total = 0
        # Only mo.Thread's setters reach the page.
        mo.Thread(target=self._run, args=(work, stop), daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self, work: Work, stop: Event) -> None:
        error = ""
        try:
            for _ in work(self._progress(stop)):
                if stop.is_set():
                    break
                self._news()
        except StoppedError:
            pass
        except QuantscopeError as found:
            error = str(found)
        except Exception as found:
            error = mistake(found)
        if stop is self._stop:
            # Its news first: the sign goes when nothing comes any more.
            try:
                self._news()
            except Exception as found:
                error = error or mistake(found)
            # Another work may have begun meanwhile: the sign is that one's.
            with self._changing:
                if stop is self._stop:
                    with self.job.hold_sync():
                        self.job.running, self.job.error = False, error

    def _progress(self, stop: Event) -> Progress:
        """Make a progress that raises `StoppedError` once `stop` is set."""
        last = 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal last
            if stop.is_set():
                raise StoppedError("Stopped")
            now = monotonic()
            goes_on = what == self.job.what and done < total
            if goes_on and now - last < _SECONDS_BETWEEN_TICKS:
                return
            last = now
            with self.job.hold_sync():
                self.job.what, self.job.done, self.job.total = what, done, total

        return progress

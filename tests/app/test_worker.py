"""Work in a thread, and the sign that it goes on."""

import threading
from collections.abc import Iterator
from threading import Event

from quantscope.app.widgets.frame import Job
from quantscope.app.worker import Worker
from quantscope.progress import Progress

SECONDS = 20


def test_the_sign_is_that_of_the_work_begun_last() -> None:
    """The last news of one may take a while; another was begun meanwhile, and goes on."""
    telling, told, goes_on = Event(), Event(), Event()

    def news() -> None:
        telling.set()
        assert told.wait(SECONDS)

    def first(progress: Progress) -> Iterator[None]:
        yield from ()

    def second(progress: Progress) -> Iterator[None]:
        assert goes_on.wait(SECONDS)
        yield from ()

    job = Job()
    worker = Worker(job, news)
    before = set(threading.enumerate())
    worker.start(first)
    assert telling.wait(SECONDS)
    (thread,) = set(threading.enumerate()) - before
    worker.start(second)
    told.set()
    thread.join(SECONDS)
    assert job.running
    ended = Event()
    job.observe(lambda _: ended.set(), names="running")
    goes_on.set()
    assert ended.wait(SECONDS) and not job.running

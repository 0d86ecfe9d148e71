"""Run the batches of samples side by side, and give their results in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

BYTES_AT_ONCE = 1 << 18
"""The bytes of numbers that wait before NumPy is called for them: for a few it takes as long."""


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_side_by_side(
    run: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[Item, Result]]:
    """Give each item and what `run` makes of it, in the items' order.

    At most `threads` results wait, so memory stays bounded. The graphs are many short operators:
    threads that share each of them would mostly wait for one another, threads that take a batch
    each do not.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append((item, pool.submit(run, item)))
            if len(waiting) > threads:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()

"""Batches executed side by side, their results taken in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    run: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Iterator[tuple[Item, Result]]:
    """Each item and what `run` makes of it, in the items' order.

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


def in_order(
    run: Callable[[NDArray[Any], int], Result],
    batches: Iterable[tuple[NDArray[Any], int]],
    *,
    threads: int,
) -> Iterator[tuple[int, int, Result]]:
    """Rows, images and result of each batch; `run` gets the rows and how many are images."""
    for (rows, count), result in side_by_side(lambda batch: run(*batch), batches, threads=threads):
        yield len(rows), count, result

"""Batches executed side by side, their results taken in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from numpy.typing import NDArray

Result = TypeVar("Result")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    run: Callable[[NDArray[Any], int], Result],
    batches: Iterable[tuple[NDArray[Any], int]],
    *,
    threads: int,
) -> Iterator[tuple[int, int, Result]]:
    """Rows, images and result of each batch; `run` gets the rows and how many are images.

    At most `threads` results wait, so memory stays bounded. The graphs are many short operators:
    threads that share each of them would mostly wait for one another, threads that take a batch
    each do not.
    """
    waiting: deque[tuple[int, int, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for rows, count in batches:
            waiting.append((len(rows), count, pool.submit(run, rows, count)))
            if len(waiting) > threads:
                size, images, future = waiting.popleft()
                yield size, images, future.result()
        for size, images, future in waiting:
            yield size, images, future.result()

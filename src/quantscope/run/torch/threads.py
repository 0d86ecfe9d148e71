"""Set how many threads an operator of PyTorch takes, while batches have threads of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np

_lock = Lock()
_users: list[int] = []
"""The setting before, once for each that is at work."""


@contextmanager
def one_thread_each(threads: int) -> Iterator[None]:
    """Give each operator one thread, while threads have batches of their own.

    Operators this short are not worth sharing.

    The setting is the process's: what the first found is what each puts back, also where several
    are at work at a time.
    """
    import torch

    if threads <= 1:
        yield
        return
    with _lock:
        before = _users[0] if _users else torch.get_num_threads()
        _users.append(before)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            torch.set_num_threads(before)


_LARGEST_COUNTED = 31 << 20  # with what is around it within the 32 MB that glibc looks at


def keep_freed_memory() -> None:
    """Have malloc hold on to what one batch frees: the next one wants it again.

    glibc keeps twice as much as the largest block that was ever freed, and gives the rest back to
    the system, from where each page comes again one by one. So from now on this process holds up to
    62 MB that it does not use. Elsewhere this does nothing.
    """
    # In benchmarks/speed_paths.py, 1,000 images, 4 to 7 % less CPU time is taken with this.
    block = np.empty(_LARGEST_COUNTED, np.uint8)
    del block

"""How many threads an operator of PyTorch takes, while batches have threads of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_users: list[int] = []
"""What was set before, once for each that is at work."""


@contextmanager
def one_thread_each(threads: int) -> Iterator[None]:
    """Operators this short are not worth sharing between threads that have batches of their own.

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

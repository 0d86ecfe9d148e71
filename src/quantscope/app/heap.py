"""Keep the memory that the process takes from the machine small, and give it back."""

import ctypes
import gc
import sys
from threading import Timer

_M_ARENA_MAX = -8  # glibc's malloc.h
_SECONDS = 2.0
"""The time from when a page has closed to when its threads are gone too."""


def use_one_heap() -> None:
    """Let all threads share one heap.

    Answers are found in many short threads. glibc gives each a heap of its own, and what one frees
    another cannot use: memory crept up by hundreds of megabytes over a long session.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def give_back_soon() -> None:
    """Give back what a page held, when it has let go of it; glibc keeps it for later otherwise."""
    timer = Timer(_SECONDS, _give_back)
    timer.daemon = True
    timer.start()


def _give_back() -> None:
    gc.collect()  # a page's widgets know it, and it knows them
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)

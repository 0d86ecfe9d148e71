"""This module tells how much memory is left, before something large is begun."""

from pathlib import Path

from quantscope.errors import BadDataError
from quantscope.files.reading import Kind

_MEMINFO = Path("/proc/meminfo")
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


def free_memory() -> int | None:
    """Give the bytes that can still be taken; None where the system does not say.

    In a container it is what its limit leaves, if that is less.
    """
    found = [left for left in (_of_machine(), _of_container()) if left is not None]
    return min(found, default=None)


def check_memory(
    needed: int, what: str, todo: str = "take fewer rows", *, kind: Kind = BadDataError
) -> None:
    """Refuse what needs more bytes than are left, before they are asked for."""
    left = free_memory()
    if left is not None and needed > left:
        raise kind(
            f"{what} would take {needed / 1e9:,.1f} GB, and {left / 1e9:,.1f} GB of memory are "
            f"left; {todo}"
        )


def _of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:  # not Linux
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kilobytes is None else int(kilobytes) * 1024


def _of_container() -> int | None:
    try:
        limit, used = (path.read_text().strip() for path in (_LIMIT, _USED))
    except OSError:
        return None
    # Pages of files are counted as used though they can be given back, so half of them are trusted
    # to be there: to refuse what would have fitted is worse than to be told a little late.
    return None if limit == "max" else max(int(limit) - int(used) // 2, 0)

from pathlib import Path

import pytest

from quantscope.errors import BadDataError
from quantscope.files import check_memory, memory


def test_what_fits_is_not_refused() -> None:
    check_memory(1, "A byte")


def test_what_does_not_fit_is_one_line_before_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1_500_000_000)
    with pytest.raises(BadDataError) as caught:
        check_memory(64_000_000_000, "All of it", "take less")
    assert str(caught.value) == (
        "All of it would take 64.0 GB, and 1.5 GB of memory are left; take less"
    )


def test_a_system_that_says_nothing_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MEMINFO", "_LIMIT", "_USED"):
        monkeypatch.setattr(memory, name, tmp_path / "none")
    assert memory.free_memory() is None
    check_memory(10**18, "A lot")


def test_a_container_has_what_its_limit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "_MEMINFO": "MemTotal: 9 kB\nMemAvailable:  8000 kB\n",
        "_LIMIT": "5000",
        "_USED": "2000",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(memory, name, tmp_path / name)
    assert memory.free_memory() == 4000
    (tmp_path / "_LIMIT").write_text("max")
    assert memory.free_memory() == 8000 * 1024

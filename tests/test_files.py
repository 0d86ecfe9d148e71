"""Writing files: whole, synced, and never over what is read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.files import (
    TEMPORARY,
    check_outputs,
    note_read,
    one_command,
    whole_file,
    write_whole,
)


def test_content_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    seen = []
    sync = os.fsync

    def watch(handle: int) -> None:
        is_folder = Path(f"/proc/self/fd/{handle}").readlink() == tmp_path
        seen.append(("folder" if is_folder else "file", path.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", watch)
    write_whole(path, b"content")
    assert seen == [("file", False), ("folder", True)]
    assert path.read_bytes() == b"content"


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), whole_file(path) as temporary:
        temporary.write_text("\ud800")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_the_longest_name_that_a_file_can_have_is_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 251}.svg"
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"


def test_a_result_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.txt", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("private")
    path.chmod(0o600)
    write_whole(path, b"private too")
    assert path.stat().st_mode & 0o777 == 0o600


def test_processes_that_write_one_file_at_once_all_succeed(tmp_path: Path) -> None:
    """Each looks for leftovers of others, and finds files that are being written."""
    script = (
        "import sys; from pathlib import Path; from quantscope.files import write_whole\n"
        "for _ in range(300): write_whole(Path(sys.argv[1]), b'content')"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.txt")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(each.communicate()[1], each.returncode) for each in writers] == [("", 0)] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def refuse_folders(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink() == tmp_path:
            raise OSError(22, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    write_whole(tmp_path / "a.txt", b"content")
    assert (tmp_path / "a.txt").read_bytes() == b"content"


def test_what_was_read_in_a_command_is_not_written_in_it(tmp_path: Path) -> None:
    """And is in the next: a person who asks for both in turn means it."""
    path, link = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("mine")
    link.hardlink_to(path)
    with one_command():
        note_read(path)
        with pytest.raises(BadConfigError, match=r"b\.txt is a file that is read"):
            write_whole(link, b"other")
    assert path.read_text() == "mine"
    with one_command():
        write_whole(path, b"other")
    note_read(path)
    write_whole(path, b"without a command nothing is noted")


def test_outputs_are_different_files(tmp_path: Path) -> None:
    check_outputs([tmp_path / "a.txt", tmp_path / "b.txt"])
    for other in (
        tmp_path / "A.txt",
        tmp_path / "." / "a.txt",
        tmp_path / ".." / tmp_path.name / "a.txt",
    ):
        with pytest.raises(BadConfigError, match="would be written twice; give each output its"):
            check_outputs([tmp_path / "a.txt", other])


def test_a_file_is_no_folder_to_write_into(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(QuantscopeError, match=r"a\.txt is not a folder to write b\.txt into"):
        write_whole(tmp_path / "a.txt" / "b.txt", b"")


def test_a_folder_full_of_other_things_is_left_alone(tmp_path: Path) -> None:
    """Only what a killed process left of this very file goes."""
    for name in (".a.txt.bak", f"{TEMPORARY}x", f"{TEMPORARY}00000000-abc.txt"):
        (tmp_path / name).write_text("")
    write_whole(tmp_path / "a.txt", b"")
    assert len(list(tmp_path.iterdir())) == 4

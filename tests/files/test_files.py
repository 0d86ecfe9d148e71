"""Files are read where that is safe, and written whole, synced, and never over what is read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantscope.errors import BadConfigError, BadDataError, QuantscopeError
from quantscope.files import (
    TEMPORARY,
    check_file,
    check_outputs,
    note_read,
    one_command,
    parse_json,
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


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 100_000, '{"a": "' + "x" * 1_000_000, "[" * 1_000_000, "[[]," * 200_000],
    ids=["escapes", "string", "open", "nested"],
)
def test_json_without_measure_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever fault is met first
        parse_json(text)


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse_json('{"a": "' + "[" * 500 + '"}') == {"a": "[" * 500}
    assert parse_json('["\\\\", "[' + "[" * 500 + '"]')[0] == "\\"
    assert parse_json("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_json("[" * 101 + "]" * 101)


def test_numbers_that_json_does_not_have_are_refused() -> None:
    for text in ("NaN", "Infinity", "1e999", '{"a": 1, "a": 2}'):
        with pytest.raises(ValueError, match=r"is not a number|too large|is there twice"):
            parse_json(text)


@pytest.mark.skipif(os.name == "nt", reason="needs pipes")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(2**31)
    said = {
        "pipe": "is not a regular file",
        "zeros": "is not a regular file",
        "loop": "Cannot read",
        "holes": "is almost all holes",
        "n" * 300: "File name too long",
        "none": "There is no file",
        ".": "is a folder",
    }
    for name, line in said.items():
        with pytest.raises(BadDataError, match=line):
            check_file(tmp_path / name, "something else")


def test_a_file_whose_end_alone_is_stored_is_read_where_it_is_small(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    os.truncate(tmp_path / "small", 2**20)
    assert check_file(tmp_path / "small", "something else") == 2**20

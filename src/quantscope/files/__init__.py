"""This room reads a person's files where that is safe, and writes them whole or not at all.

- `reading.py`: the one way to read a file that somebody named. Only regular files are opened, sizes
  are looked at before anything is read, and JSON's depth before it is parsed.
- `writing.py`: files are written beside their place, synced, and then given their name.
- `command.py`: the files that a command has read, so that it does not write over them.
- `memory.py`: how much memory is left.
- `names.py`: paths as a person types them.

A new kind of input calls `check_file`, `read_bytes` or `read_json`, and says what it wanted.
"""

from quantscope.files.command import (
    Command,
    note_read,
    one_command,
    refuse_source,
    refuse_to_remove,
)
from quantscope.files.memory import check_memory, free_memory
from quantscope.files.names import BUNDLED, as_argument
from quantscope.files.reading import (
    check_file,
    is_folder,
    is_there,
    parse_json,
    read_bytes,
    read_json,
)
from quantscope.files.writing import (
    TEMPORARY,
    check_output,
    check_outputs,
    remove_leftovers,
    whole_file,
    write_whole,
)

__all__ = [
    "BUNDLED",
    "TEMPORARY",
    "Command",
    "as_argument",
    "check_file",
    "check_memory",
    "check_output",
    "check_outputs",
    "free_memory",
    "is_folder",
    "is_there",
    "note_read",
    "one_command",
    "parse_json",
    "read_bytes",
    "read_json",
    "refuse_source",
    "refuse_to_remove",
    "remove_leftovers",
    "whole_file",
    "write_whole",
]

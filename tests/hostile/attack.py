"""Runs commands on hostile files, thousands of them, and says which broke a promise.

    python tests/hostile/attack.py onnx 0 500
    python tests/hostile/attack.py all 0 5

The modules are loaded once; each command is a fork of that, so that one costs milliseconds and what
it does to itself ends with it. What is promised: exit 0, or exit 2 and one line; 5 seconds; 500 MB.
"""

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MOST_SECONDS = 5.0
MOST_BYTES = 500e6
_GIVE_UP_SECONDS = 25.0

Case = Callable[[int, Path], Sequence[object]]
"""Writes the hostile files of a seed into a folder, and gives a command line that reads them."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is negative for the signal that killed it."""

    words: list[str]
    code: int
    stdout: str
    stderr: str
    seconds: float
    grown: int

    def fault(self) -> str | None:
        """Say which promise was broken, if any."""
        lines = self.stderr.splitlines()
        if self.code not in (0, 2):
            return f"exit {self.code}: {' | '.join(lines[-3:])}"
        if self.code == 2 and (len(lines) != 1 or not lines[0].startswith("quantscope: ")):
            return f"{len(lines)} lines: {' | '.join(lines[:3])}"
        said = ("Wrote ", "Opening ", "Data: ")
        if self.code == 0 and not all(line.startswith(said) for line in lines):
            return f"words on stderr: {' | '.join(lines[:3])}"
        # A study does what is missing or damaged again, which is work.
        if self.seconds > MOST_SECONDS * (4 if self.words[0] == "study" and self.code == 0 else 1):
            return f"{self.seconds:.1f} s"
        if self.grown > MOST_BYTES:
            return f"{self.grown / 1e6:.0f} MB more"
        return None


def run(
    words: Sequence[object],
    folder: Path,
    *,
    as_somebody: bool = False,
    patience: float = _GIVE_UP_SECONDS,
) -> Outcome:
    """Run a command in a fork; with `as_somebody`, one that file permissions hold for.

    It is killed after `patience` seconds.
    """
    before = _resident()
    started = time.perf_counter()
    texts = [str(word) for word in words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _be_the_command(texts, folder, out.fileno(), err.fileno(), as_somebody=as_somebody)
        status, usage = _wait(child, started, patience)
        seconds = time.perf_counter() - started
        contents = []
        for stream in (out, err):
            stream.seek(0)
            contents.append(stream.read().decode("utf-8", "replace"))
    code = os.waitstatus_to_exitcode(status)
    return Outcome(texts, code, *contents, seconds, usage.ru_maxrss * 1024 - before)


def _be_the_command(
    words: list[str], folder: Path, out: int, err: int, *, as_somebody: bool
) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(folder)
        if as_somebody:
            drop_capabilities()
        os.environ["COLUMNS"] = "100"
        sys.argv = ["quantscope", *words]
        from quantscope.cli import main

        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int, started: float, patience: float) -> tuple[int, resource.struct_rusage]:
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            return status, usage
        if time.perf_counter() - started > patience:
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(0.002)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def drop_capabilities() -> None:
    """Let permissions hold for root too, as they do for everybody else."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capset")


def load_modules(kind: str) -> None:
    """Import what commands import when they need it: the time that takes is not theirs."""
    torch = ["torchao", "torch.export"] if kind in ("torch", "all") else []
    others = ["onnxruntime.quantization", *torch]
    for name in (*others, *(f"quantscope.{name}" for name in _MODULES)):
        importlib.import_module(name)


_MODULES = (
    "cli", "data", "edit", "model", "model.torch", "model.torchscript", "quantize", "report",
    "report.compare.html", "run", "run.capture.file", "study", "study.ptq_study",
    "study.sensitivity", "zoo", "zoo.keras", "run.torch.runnable", "report.study.report",
)  # fmt: skip


def attack(kind: str, case: Case, seeds: range) -> list[dict[str, object]]:
    """Try the cases of some seeds; gives those that broke a promise, twice in a row."""
    broken = []
    codes: Counter[int] = Counter()
    for seed in seeds:
        tries = []
        for _ in range(2):  # a machine that is busy breaks the one about seconds
            folder = Path(tempfile.mkdtemp(prefix="hostile-"))
            try:
                words = case(seed, folder)
                tries.append(run(words, folder, as_somebody=True))
            finally:
                _remove(folder)
            if tries[-1].fault() is None:
                break
        codes[tries[-1].code] += 1
        if fault := tries[-1].fault():
            broken.append({"seed": seed, "fault": fault, **asdict(tries[-1])})
    print(json.dumps({"kind": kind, "cases": len(seeds), "exits": codes}), file=sys.stderr)
    return broken


def _remove(folder: Path) -> None:
    for place, _, _ in os.walk(folder):
        Path(place).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    load_modules(given.kind)
    sys.path.append(str(Path(__file__).parents[1] / "support"))  # pytest has it there already
    from kinds import KINDS

    kinds = KINDS if given.kind == "all" else [given.kind]
    seeds = range(given.first, given.last)
    broken = [one for kind in kinds for one in attack(kind, KINDS[kind], seeds)]
    shown = tuple(broken[0]) if given.verbose and broken else ("seed", "fault", "words")
    for one in broken:
        print(json.dumps({name: one[name] for name in shown}))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

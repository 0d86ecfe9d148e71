import io
import os
import pickle
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from tiny_cifar import official_pickle, python2_pickle

from quantscope.data.cifar10.batches import read_batch, read_label_list, read_picture
from quantscope.errors import BadDataError

IMAGES = np.random.default_rng(1).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
LABELS = np.array([3, 8, 9, 0])


def _refused(content: bytes) -> str:
    with pytest.raises(BadDataError) as caught:
        read_batch(content, 4, what="data_batch_1")
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("data_batch_1 is not a CIFAR-10 batch (")
    assert line.endswith("); nothing in it was run. Get a fresh copy")
    return line.removeprefix("data_batch_1 is not a CIFAR-10 batch (").split("); nothing")[0]


@pytest.mark.parametrize("write", [official_pickle, python2_pickle])
def test_batches_of_python_2_and_3_decode_alike(write):
    content = write(IMAGES, LABELS)
    oracle = pickle.loads(content, encoding="bytes")
    images, labels = read_batch(content, 4, what="data_batch_1")
    assert np.array_equal(images, IMAGES)
    assert np.array_equal(images.reshape(4, 3072), oracle[b"data"])
    assert labels.tolist() == LABELS.tolist() == oracle[b"labels"]


class _Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("function", "named"), [(open, "open"), (eval, "eval"), (os.mkdir, "mkdir")]
)
def test_hostile_pickles_are_refused_and_nothing_runs(tmp_path, function, named):
    trace = tmp_path / "trace"
    arguments = {
        open: (str(trace), "w"),
        eval: (f"open({str(trace)!r}, 'w')",),
        os.mkdir: (str(trace),),
    }[function]
    content = pickle.dumps({b"data": _Runs(function, *arguments), b"labels": []}, protocol=2)
    assert re.fullmatch(rf"it names \w+\.{named}, which no batch holds", _refused(content))
    assert not trace.exists()
    made = pickle.loads(content)[b"data"]  # the pickle does work where it is let
    if made is not None:
        made.close()
    assert trace.exists()


@pytest.mark.parametrize("instruction", [b"(X\x01\x00\x00\x00aios\nsystem\n.", b"cos\nsystem\n."])
def test_old_ways_to_name_a_function_are_refused_too(instruction):
    assert _refused(b"\x80\x02" + instruction) == "it names os.system, which no batch holds"


def test_functions_that_are_admitted_cannot_be_changed_by_a_pickle():
    # BUILD on an admitted name: ({}, {"name": "encode"}) sets attributes of what is built.
    _refused(b"\x80\x02cnumpy\ndtype\n}X\x04\x00\x00\x00nameX\x01\x00\x00\x00xs\x86b.")
    images, _ = read_batch(official_pickle(IMAGES, LABELS), 4, what="data_batch_1")
    assert np.array_equal(images, IMAGES)


def test_absurd_memo_is_refused_before_memory_is_asked_for():
    content = b"\x80\x02}r" + struct.pack("<I", 0xFFFFFFFF) + b"."
    assert _refused(content) == "it asks for an absurd amount of memory"


def test_codecs_other_than_the_one_for_bytes_are_refused():
    content = pickle.dumps({b"data": 1}, protocol=2).replace(b"latin1", b"rot_13")
    assert _refused(content) == "it encodes something other than bytes"


@pytest.mark.parametrize("length", [0, 1, 10, 100, 5000, -1])
def test_pickles_cut_short_are_refused(length):
    _refused(official_pickle(IMAGES, LABELS)[:length])


def test_text_is_refused():
    _refused(b"<html>404</html>")


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ([1, 2], "it is not a dictionary"),
        ({b"labels": [1]}, "it lacks b'data'"),
        ({b"data": [1], b"labels": [1]}, "its data is not an array"),
        (
            {b"data": np.zeros((4, 3072), np.int8), b"labels": [0] * 4},
            "its data is not uint8",
        ),
        (
            {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0] * 4},
            "its data has shape (2, 3072), not (4, 3072)",
        ),
        (
            {b"data": np.zeros((4, 3072), np.uint8, order="F"), b"labels": [0] * 4},
            "its data has shape (4, 3072), not (4, 3072)",
        ),
        (
            {b"data": np.zeros((4, 3072), np.uint8), b"labels": [0] * 3},
            "4 labels expected, found 3",
        ),
        (
            {b"data": np.zeros((4, 3072), np.uint8), b"labels": [0, 1, 2, 10]},
            "labels other than 0 to 9",
        ),
        (
            {b"data": np.zeros((4, 3072), np.uint8), b"fine_labels": [0] * 4},
            "it lacks b'labels'",
        ),
    ],
)
def test_pickles_of_something_else_say_what_is_wrong(batch, reason):
    assert _refused(pickle.dumps(batch, protocol=2)) == reason


def _png(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, format="PNG")
    return stream.getvalue()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content)) + kind + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )  # fmt: skip


def test_pictures_hold_one_image_a_row():
    rows = IMAGES.transpose(0, 2, 3, 1).reshape(4, 1024, 3)
    assert np.array_equal(read_picture(_png(rows), 4, what="data_batch_1.png"), IMAGES)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_png(np.zeros((4, 1000, 3), np.uint8)), "RGB, 1000 x 4 pixels"),
        (_png(np.zeros((4, 1024), np.uint8)), "L, 1024 x 4 pixels"),
        (
            b"\x89PNG\r\n\x1a\n"
            + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1024, 100_000, 8, 2, 0, 0, 0))
            + _chunk(b"IDAT", b""),
            "RGB, 1024 x 100000 pixels",
        ),
    ],
)
def test_pictures_of_something_else_say_what_they_are(content, reason):
    with pytest.raises(BadDataError) as caught:
        read_picture(content, 4, what="data_batch_1.png")
    assert str(caught.value) == (
        f"data_batch_1.png is not the picture of a CIFAR-10 batch ({reason}); get a fresh copy"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        _png(np.random.default_rng(0).integers(0, 256, (4, 1024, 3), dtype=np.uint8))[:3000],
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
        + _chunk(b"IDAT", b""),
    ],
)
def test_broken_and_absurd_pictures_are_refused(content):
    with pytest.raises(BadDataError, match=r"^data_batch_1.png is not the picture .*fresh copy$"):
        read_picture(content, 4, what="data_batch_1.png")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b"[1, 2, 3, 10]", b"[1, 2, 3, true]"])
def test_label_lists_of_something_else_are_refused(content):
    with pytest.raises(BadDataError, match=r"^x.json is not a list of CIFAR-10 labels \(.*copy$"):
        read_label_list(content, 4, what="x.json")

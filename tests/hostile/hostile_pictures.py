"""Pictures: damaged ones, ones that lie about their size, settings that make no sense."""

import io
import json
import os
import random
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF", "PPM")
_ODD = (
    None,
    -1,
    0,
    1,
    1e400,
    10**9,
    "a",
    [],
    {},
    [1, 2],
    {"height": 3},
    {"shortest_edge": 5},
    True,
)


def pictures_case(seed: int, folder: Path) -> Sequence[object]:
    """One command with one folder."""
    rng = random.Random(f"pictures {seed}")
    data = folder / "d"
    data.mkdir()
    rng.choice([_damaged, _damaged, _lying, _settings, _places])(data, rng)
    options = rng.choice(
        [
            (),
            ("--size", "32"),
            ("--mean", "1,2"),
            ("--std", "0"),
            ("--scale", "1e30"),
            ("--channels", "gray"),
            ("--layout", "nhwc"),
        ]
    )
    commands: list[Sequence[object]] = [
        ("evaluate", "resnet8-int8", "--data", "d", *options),
        ("evaluate", "resnet8-int8", "--data", "d", "--images", "1", *options),
        ("capture", "resnet8-int8", "--data", "d", "-o", "c.npz", *options),
        ("quantize", "resnet8", "-o", "q.onnx", "--calibration-data", "d", *options),
    ]
    return rng.choice(commands)


def _picture(rng: random.Random, form: str = "") -> bytes:
    size = rng.choice([(32, 32), (1, 1), (33, 20), (1, 500)])
    form = form or rng.choice(_FORMATS)
    mode = rng.choice(["RGB", "L", "1"]) if form != "PNG" else rng.choice(["RGBA", "P", "I;16"])
    pixels = np.random.default_rng(rng.randrange(99)).integers(0, 256, (*size[::-1], 3), np.uint8)
    image = Image.fromarray(pixels)
    image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
    content = io.BytesIO()
    image.save(content, form)
    return content.getvalue()


def _damaged(data: Path, rng: random.Random) -> None:
    for number in range(rng.randint(1, 3)):
        content = bytearray(_picture(rng))
        if rng.random() < 0.3:
            del content[rng.randrange(len(content)) :]
        for _ in range(rng.randint(0, 8)):
            if content:
                content[min(rng.randrange(400), len(content) - 1)] = rng.randrange(256)
        (data / f"{number}.{rng.choice(['png', 'jpg', 'tif', 'gif'])}").write_bytes(content)


def _lying(data: Path, rng: random.Random) -> None:
    """PNGs whose headers say sizes that are not in them, some of zeros that unpack to much."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    width, height = rng.choice([(2**31 - 1, 1), (100_000, 100_000), (9_000, 5_500), (6_000, 6_000)])
    depth, color = rng.choice([(8, 2), (16, 6), (16, 0), (8, 6), (1, 0)])
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, rng.choice([0, 1]))
    zeros = zlib.compress(bytes(rng.choice([0, 10**6, 10**8])))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zeros) + chunk(b"IEND", b"")
    (data / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def _settings(data: Path, rng: random.Random) -> None:
    (data / "a.png").write_bytes(_picture(rng, "PNG"))
    names = ("size", "crop_size", "resample", "rescale_factor", "image_mean", "image_std")
    names += ("crop_pct", "do_resize", "do_center_crop", "do_normalize")
    facts = {name: rng.choice(_ODD) for name in rng.sample(names, rng.randint(1, 6))}
    text = json.dumps(facts)
    if rng.random() < 0.2:
        text = rng.choice([text[:-3], "[" * 5000, "null", "{}" + text, "\0"])
    (data / "preprocessor_config.json").write_text(text)


def _places(data: Path, rng: random.Random) -> None:
    kind = rng.choice(["pipe", "link", "folder", "device", "both", "dark"])
    (data / "cat").mkdir()
    if kind == "pipe":
        os.mkfifo(data / "cat" / "a.png")
    elif kind == "link":
        (data / "cat" / "a.png").symlink_to(data / "none.png")
    elif kind == "folder":
        (data / "cat" / "a.png").mkdir()
    elif kind == "device":
        (data / "cat" / "a.png").symlink_to("/dev/zero")
    elif kind == "both":
        for path in (data / "a.png", data / "cat" / "b.png"):
            path.write_bytes(_picture(rng))
    else:
        (data / "cat" / "a.png").write_bytes(_picture(rng))
        (data / "cat").chmod(0)

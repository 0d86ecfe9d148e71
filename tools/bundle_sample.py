"""Make the images that come with the package, from the full set.

Run `quantscope data fetch` first, then `python tools/bundle_sample.py`. The choice is seeded, so
the same images come out every time.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

import quantscope.data
from quantscope.data.calibration import balanced_order
from quantscope.data.cifar10.cache import load_full
from quantscope.data.cifar10.facts import SplitName
from quantscope.data.cifar10.sample import sheet_from_images
from quantscope.data.samples import digest_of

SEED = 2024
IMAGES = 1000
BUNDLED = Path(quantscope.data.__file__).parent / "bundled"


def bundle(split: SplitName, name: str, folder: Path = BUNDLED) -> None:
    full = load_full(split)
    chosen = full.select(balanced_order(full.labels, seed=SEED)[:IMAGES])
    folder.mkdir(exist_ok=True)
    sheet = sheet_from_images(np.ascontiguousarray(chosen.images))
    Image.fromarray(sheet).save(folder / f"{name}.png", optimize=True)
    facts = {
        "digest": digest_of(chosen.images, chosen.labels),
        "indices": chosen.indices.tolist(),
        "labels": chosen.labels.tolist(),
    }
    text = json.dumps(facts, separators=(",", ":")).replace('],"', '],\n"')
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    size = (folder / f"{name}.png").stat().st_size
    print(f"{name}: {len(chosen):,} images, {size:,} bytes, {facts['digest']}")


if __name__ == "__main__":
    bundle("test", "cifar10-test-sample")
    bundle("train", "cifar10-train-sample")

"""CIFAR-10: a sample that comes with quantscope, and the full set, which is fetched on demand.

How it is put together
- `facts.py` has its classes, its batches and the digests that it is recognized by.
- `sample.py` loads the bundled pictures; `cache.py` loads the full set from where `fetch` left it.
- `fetch.py` brings the full set: `download.py` gets an archive, `archives.py` reads it, or a
  folder, without extracting anything, `batches.py` decodes what is in it.
- `describe.py` says what of it is here.
"""

from quantscope.data.cifar10.cache import LOCK, cache_folder, load_full, locked
from quantscope.data.cifar10.describe import DataInfo, SetInfo, describe
from quantscope.data.cifar10.facts import fits_cifar10
from quantscope.data.cifar10.fetch import fetch
from quantscope.data.cifar10.sample import load_calibration_pool, load_sample

__all__ = [
    "LOCK",
    "DataInfo",
    "SetInfo",
    "cache_folder",
    "describe",
    "fetch",
    "fits_cifar10",
    "load_calibration_pool",
    "load_full",
    "load_sample",
    "locked",
]

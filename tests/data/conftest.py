from pathlib import Path

import pytest
from tiny_cifar import Tiny, make_tiny


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test here depends on what this machine has fetched."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("QUANTSCOPE_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return make_tiny(per_batch=3, seed=10)

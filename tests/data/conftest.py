from pathlib import Path

import pytest
from tiny_cifar import Tiny, make_tiny


@pytest.fixture(autouse=True)
def nothing_fetched(empty_cache: Path) -> None:
    """No test here depends on what this machine has fetched."""


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return make_tiny(per_batch=3, seed=10)

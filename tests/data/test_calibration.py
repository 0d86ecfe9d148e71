import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantscope.data import calibration_set, load_calibration_pool
from quantscope.data.calibration import balanced_order
from quantscope.errors import BadDataError


@given(size=st.integers(1, 1000), seed=st.integers(0, 2**40))
def test_any_size_is_stratified_and_without_repeats(size, seed):
    chosen = calibration_set(size, seed=seed)
    counts = chosen.class_counts().values()
    assert sum(counts) == len(chosen) == size
    assert max(counts) - min(counts) <= 1
    assert len(set(chosen.indices.tolist())) == size


def test_images_labels_and_indices_stay_together():
    pool = load_calibration_pool()
    row_of = {index: row for row, index in enumerate(pool.indices.tolist())}
    chosen = calibration_set(64, seed=5)
    rows = [row_of[index] for index in chosen.indices.tolist()]
    assert np.array_equal(chosen.images, pool.images[rows])
    assert np.array_equal(chosen.labels, pool.labels[rows])


def test_a_seed_means_the_same_images_on_every_machine():
    expected = [29164, 29871, 28785, 34616, 47339, 33150, 21561, 25530]
    assert calibration_set(8).indices.tolist() == expected
    assert calibration_set(8, seed=1).indices.tolist() != expected


def test_a_smaller_set_is_a_prefix_of_a_larger_one():
    assert (
        calibration_set(100, seed=3).indices.tolist()
        == calibration_set(256, seed=3).indices[:100].tolist()
    )


def test_uneven_classes_are_used_up_in_turn():
    labels = np.array([0] * 50 + [1] * 3 + [2] * 20)
    order = balanced_order(labels, seed=0)
    assert sorted(order.tolist()) == list(range(73))
    assert sorted(labels[order[:9]].tolist()) == [0] * 3 + [1] * 3 + [2] * 3
    assert 1 not in labels[order[9:]]


def test_name_tells_size_and_seed():
    assert calibration_set(256, seed=7).name == "cifar10-train-sample, 256 images, seed 7"


@pytest.mark.parametrize(
    ("size", "seed", "text"),
    [
        (0, 0, "A calibration set needs at least 1 image; 0 were asked for"),
        (-3, 0, "A calibration set needs at least 1 image; -3 were asked for"),
        (8, -1, "A calibration seed is 0 or more, not -1"),
        (
            50_001,
            0,
            "A calibration set of 50,001 images was asked for, but CIFAR-10 has 50,000 training "
            "images; choose 50,000 or fewer",
        ),
    ],
)
def test_impossible_sizes_and_seeds_get_one_clear_line(size, seed, text):
    with pytest.raises(BadDataError) as caught:
        calibration_set(size, seed=seed)
    assert str(caught.value) == text


def test_more_than_the_bundled_pool_needs_the_full_set(empty_cache):
    with pytest.raises(BadDataError) as caught:
        calibration_set(1001)
    assert str(caught.value) == (
        "A calibration set of 1,001 images is more than the 1,000 bundled ones. The full CIFAR-10 "
        f"set is not in {empty_cache / 'cifar10'}; get it with: quantscope data fetch"
    )

"""Round weights so that a layer's outputs stay, not so that each weight does.

Each weight goes to one of the two integers beside it. Taken one after the other, what rounding one
adds to the outputs is made up for by the weights that are still to be rounded (Frantar et al. 2022,
GPTQ: the closed form of Optimal Brain Surgeon); then single weights go the other way as long as
that brings the outputs nearer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]

_DAMPING = 0.01
"""A share of the mean square of the inputs that is added to each: it keeps the inverse exact."""


def round_to_keep(steps: Floats, products: Floats, lowest: Floats, highest: Floats) -> Floats:
    """Give integers for weights that are stated in steps, [outputs, inputs of an output].

    `products` are those of the inputs with each other, X^T X. The integers lie within `lowest` and
    `highest`, for the weights of one output or of each. They never leave a larger error than the
    nearest ones do.
    """
    down = np.clip(np.floor(steps), lowest, highest)
    up = np.clip(np.ceil(steps), lowest, highest)
    nearest = np.clip(np.rint(steps), lowest, highest)
    if not np.diag(products).any():
        return nearest
    found = _one_after_the_other(steps, products, down, up)
    kept = np.where(
        (row_errors(found - steps, products) < row_errors(nearest - steps, products))[:, None],
        found,
        nearest,
    )
    return _turn_single_ones(kept, steps, products, down, up)


def row_errors(difference: Floats, products: Floats) -> Floats:
    """Compute the squared error of each output, summed over all rows of X."""
    return np.asarray(np.einsum("oi,oi->o", difference @ products, difference))


def _one_after_the_other(steps: Floats, products: Floats, down: Floats, up: Floats) -> Floats:
    """Round the weights whose inputs are largest first; let the others make up for each."""
    size = len(products)
    damped = products + _DAMPING * np.diag(products).mean() * np.eye(size)
    order = np.argsort(-np.diag(damped), kind="stable")
    # The rows of the inverse's upper factor say how much each later weight makes up for.
    inverse = np.linalg.inv(damped[np.ix_(order, order)])
    factor = np.linalg.cholesky((inverse + inverse.T) / 2).T
    left, found = steps[:, order].copy(), np.empty_like(steps)
    for place, column in enumerate(order):
        wanted = left[:, place]
        chosen = np.where(
            np.abs(wanted - down[:, column]) <= np.abs(wanted - up[:, column]),
            down[:, column],
            up[:, column],
        )
        found[:, column] = chosen
        share = (wanted - chosen) / factor[place, place]
        left[:, place + 1 :] -= np.outer(share, factor[place, place + 1 :])
    return found


def _turn_single_ones(
    integers: Floats, steps: Floats, products: Floats, down: Floats, up: Floats
) -> Floats:
    """Turn, of each output, the weight that helps most, until none helps."""
    found = integers.copy()
    pull = (found - steps) @ products
    squares = np.diag(products)
    rows = np.arange(len(found))
    for _ in range(found.shape[1]):
        turn = down + up - 2 * found
        # Nothing lies between: an integer weight, or one beyond the ends.
        gain = turn * (2 * pull + turn * squares)
        best = np.argmin(gain, axis=1)
        helps = gain[rows, best] < -1e-9 * np.abs(squares[best])
        if not helps.any():
            break
        move = np.where(helps, turn[rows, best], 0)
        found[rows, best] += move
        pull += move[:, None] * products[best]
    return found

"""What a gesture of the What-if controls asks for: other edits, or a line that says why not."""

from collections.abc import Mapping
from typing import Any

from quantscope.app import edits as book
from quantscope.app.edits import Edits
from quantscope.arithmetic import QuantParams
from quantscope.errors import BadConfigError
from quantscope.model import QuantTensor


def edits_after(
    step: Mapping[str, Any], edits: Edits, tensor: QuantTensor, now: QuantParams
) -> Edits:
    """`step` is one of `QParam.edit`, `now` what the edits have made of the tensor's parameters."""
    match step["what"]:
        case "scale":
            return book.set_scale(edits, tensor, now, _number(step["value"]))
        case "zero_point":
            return book.set_zero_point(edits, tensor, now, _whole(step["value"]))
        case "range":
            return book.set_range(edits, tensor, _number(step["lo"]), _number(step["hi"]))
        case "factor":
            return book.set_factor(edits, tensor, _number(step["value"]))
        case "channel":
            return book.set_channel(
                edits, tensor, now, int(step["channel"]), _number(step["value"])
            )
        case _:
            return book.reset(edits, tensor)


def _number(given: Any) -> float:
    """What a slider or a field sent; a field sends what was typed."""
    try:
        return float(given)
    except (TypeError, ValueError):
        raise BadConfigError(f"{given!r} is not a number; type one such as 0.05") from None


def _whole(given: Any) -> int:
    value = _number(given)
    if not value.is_integer():
        raise BadConfigError(f"A zero-point is a whole number, not {given}")
    return int(value)

"""Compute every number of docs/quantization from the bundled models: `all_fields`.

Only exact integer arithmetic and stored parameters are used, so the numbers are the same on any
CPU.
"""

from doc_numbers import architecture, boundary, convolution, matmul, requantization, saturation
from doc_numbers.executed import Executed, execute
from doc_numbers.formatting import Fields, Value

__all__ = ["Executed", "Fields", "Value", "all_fields", "execute"]

_PARTS = (boundary, convolution, requantization, saturation, matmul, architecture)


def all_fields(executed: Executed | None = None) -> Fields:
    """Give every field's value by name. A template formats numbers; tables are finished rows."""
    executed = executed or execute()
    found: Fields = {}
    for part in _PARTS:
        made = part.fields(executed)
        twice = found.keys() & made.keys()
        assert not twice, f"fields made twice: {sorted(twice)}"
        found |= made
    return found

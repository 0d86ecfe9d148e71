"""Along which axis a weight has its output channels."""

import pytest

from quantscope.model.channels import weight_channel_axis


@pytest.mark.parametrize(
    ("op_type", "rank", "is_transposed", "axis"),
    [
        ("Conv", 4, False, 0),
        ("Conv", 3, False, 0),
        ("ConvTranspose", 4, False, 1),
        ("Gemm", 2, False, 1),
        ("Gemm", 2, True, 0),
        ("MatMul", 2, False, 1),
        ("MatMul", 3, False, 2),
        ("MatMul", 1, False, 0),
    ],
)
def test_the_operator_tells_where_output_channels_lie(
    op_type: str, rank: int, is_transposed: bool, axis: int
) -> None:
    assert weight_channel_axis(op_type, rank, is_transposed=is_transposed) == axis


@pytest.mark.parametrize("op_type", ["Gather", "Mul", "PRelu"])
def test_other_operators_have_no_output_channels(op_type: str) -> None:
    assert weight_channel_axis(op_type, 2) is None

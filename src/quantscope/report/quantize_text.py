"""Say what quantizing a model made, as lines."""

from collections.abc import Iterator

from quantscope.quantize import Agreement, Quantized
from quantscope.report.table import Line


def quantization_view(result: Quantized, agreement: Agreement | None = None) -> Iterator[Line]:
    """Name the files, how closely two forms of one network agree, and what to do next."""
    also = f" and {result.onnx_path}" if result.onnx_path else ""
    yield Line(f"Wrote {result.path}{also}: {result.label}, {result.size_bytes / 1000:,.0f} kB")
    if agreement is not None:
        yield Line(agreement_text(agreement))
    yield Line(f"Measure it with: quantscope evaluate {result.path}")


def agreement_text(agreement: Agreement) -> str:
    """Say how far a program and its ONNX form differ, and why they may."""
    if agreement.same_class is None:
        return (
            f"The two give the same numbers for {agreement.identical_images:,} of "
            f"{agreement.images:,} rows (up to float32 rounding: {agreement.close_images:,}); the "
            f"largest difference is {agreement.largest_difference:.3g}. They add float products in "
            "different orders, which can move what is rounded next by a step."
        )
    return (
        f"The two agree in the class of {agreement.same_class:,} of {agreement.images:,} test "
        f"images and in all logits of {agreement.identical_images:,} (up to float32 rounding: "
        f"{agreement.close_images:,}); the largest difference is "
        f"{agreement.largest_difference:.3g}. They add a convolution's float products in "
        "different orders, which can move what is rounded next by a step."
    )

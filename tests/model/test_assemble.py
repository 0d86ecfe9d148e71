"""What `assemble` makes of parts that no reader is needed for."""

from collections.abc import Mapping

from quantscope.arithmetic.params import QuantParams
from quantscope.model.assemble import Draft, Parts, Reading, Step, ValueType, assemble
from quantscope.model.network import OperandRole, Shape

SHAPE: Shape = ("N", 3, 5)
SIZED: Shape = (1, 3, 5)
TYPE = ValueType("float32", SHAPE, SIZED)


def draft(value: str, integers: str, scale: float = 0.5, *, scale_name: str | None = None) -> Draft:
    params = QuantParams(scale, 0, "uint8")
    return Draft(params, [integers], scale_name, None, SHAPE, float_name=value)


def reading(
    origin: str, quantized: Draft | None = None, role: OperandRole = "activation"
) -> Reading:
    dtype = quantized.params.dtype if quantized else "float32"
    return Reading(origin, role, origin, quantized, dtype, SHAPE, SIZED)


def step(name: str, read: Reading, *outputs: str, keeps_params: bool = False) -> Step:
    return Step(name, name, "Relu", "Relu", "", (read,), outputs, keeps_params=keeps_params)


def parts(
    *steps: Step,
    drafts: tuple[Draft, ...] = (),
    outputs: tuple[Reading, ...] = (),
    origins: Mapping[str, str] | None = None,
    counts_constant_outputs: bool = False,
) -> Parts:
    names = ["x", *(name for made in steps for name in made.outputs if name)]
    return Parts(
        steps=steps,
        drafts=drafts,
        types=dict.fromkeys(names, TYPE),
        inputs=("x",),
        outputs=outputs,
        written={name: [d for d in drafts if d.float_name == name] for name in names},
        folding_relu=(),
        origins=origins or {},
        counts_constant_outputs=counts_constant_outputs,
    )


def test_an_output_that_is_left_out_keeps_its_place_in_names() -> None:
    third = draft("c", "c_q")
    found = parts(step("split", reading("x"), "a", "", "c"), drafts=(third,))
    made = assemble(found)
    assert [operand.name for operand in made.layers[0].outputs] == ["a", "c"]
    assert made.tensors[0].name == "split.out3"


def test_all_quantizers_of_a_value_are_listed_with_the_layer_that_writes_it() -> None:
    late, one, two = draft("b", "b_q"), draft("a", "a_q"), draft("a", "a_q2", 0.25)
    first = step("first", reading("x"), "a")
    second = step("second", reading("a", two), "b")
    made = assemble(parts(first, second, drafts=(late, one, two)))
    assert [tensor.name for tensor in made.tensors] == ["first.out", "first.out_2", "second.out"]
    quantized = made.layers[0].outputs[0].quant
    assert quantized is not None and quantized.integer_names == ("a_q",)


def test_a_value_quantized_again_is_its_first_makers_if_its_origin_is_known() -> None:
    again = draft("a_dq", "a_q2")
    found = step("first", reading("x"), "a")
    with_origin = assemble(parts(found, drafts=(again,), origins={"a_dq": "a"})).tensors[0]
    without = assemble(parts(found, drafts=(again,))).tensors[0]
    assert (with_origin.name, with_origin.producer) == ("first.out", "first")
    assert (without.name, without.producer) == ("a_dq", None)


def test_parameters_are_shared_by_scale_and_across_steps_that_keep_them() -> None:
    into, out, other = draft("x", "q", scale_name="s"), draft("a", "p"), draft("b", "r")
    named = draft("c", "t", 0.25, scale_name="s")
    drafts = (into, out, other, named)
    moved = step("moved", reading("x", into), "a", keeps_params=True)
    computed = step("computed", reading("a", out), "b", "c")
    shares = {
        tensor.float_name: tensor.shares_params_with
        for tensor in assemble(parts(moved, computed, drafts=drafts)).tensors
    }
    assert shares == {
        "x": ("moved.out", "computed.out2"),
        "a": ("x", "computed.out2"),
        "b": (),
        "c": ("x", "moved.out"),
    }


def test_a_constant_output_takes_memory_only_where_it_is_counted() -> None:
    first = step("first", reading("x"), "a")
    outputs = (reading("a"), reading("k", role="weight"))
    plain = assemble(parts(first, outputs=outputs))
    counted = assemble(parts(first, outputs=outputs, counts_constant_outputs=True))
    assert plain.layers[0].live_bytes == 2 * 3 * 5 * 4
    assert counted.layers[0].live_bytes == 3 * 3 * 5 * 4

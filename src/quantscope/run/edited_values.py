"""Read inner values of an edited model, as the file that it would become states them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from quantscope.data import Feeds
from quantscope.edit import Applied
from quantscope.run.runnable import Runnable

if TYPE_CHECKING:
    from onnx import ModelProto

Array = NDArray[Any]


class EditedValues:
    """An edited model of any kind, for chosen values: no more than they need is computed.

    `base` runs the unedited model; `names` are the values' names in the file. Graph optimizations
    are off, as in every reference execution.
    """

    def __init__(self, base: Runnable, applied: Applied, names: Sequence[str]) -> None:
        opens = _open_program if base.model.framework == "torch" else _open_graph
        self._read = opens(base, applied, tuple(dict.fromkeys(names)))

    def read(self, feeds: Feeds) -> Mapping[str, Array]:
        """Give the values of one batch by their names."""
        return self._read(feeds)


def _open_graph(
    base: Runnable, applied: Applied, names: tuple[str, ...]
) -> Callable[[Feeds], Mapping[str, Array]]:
    from quantscope.run.onnx import only_up_to, run_session, session_of

    made = _names_now(base.model.as_onnx("edit").stated, applied.proto, names)
    session = session_of(only_up_to(applied.proto, list(made.values())), "reference")
    taken = {port.name for port in session.get_inputs()}

    def read(feeds: Feeds) -> Mapping[str, Array]:
        given = {name: array for name, array in feeds.items() if name in taken}
        return dict(
            zip(made, run_session(session, list(made.values()), given, base.name), strict=True)
        )

    return read


def _names_now(base: "ModelProto", edited: "ModelProto", names: tuple[str, ...]) -> dict[str, str]:
    """Give each value the name it has under the edits, by the node that makes it.

    Where the quantizer of an output is switched off, what the node makes is the output itself.
    """
    there = {name for node in edited.graph.node for name in node.output}
    by_node = {node.name: list(node.output) for node in edited.graph.node if node.name}
    places = {
        name: (node.name, at) for node in base.graph.node for at, name in enumerate(node.output)
    }
    found = {}
    for name in names:
        node, at = places.get(name, ("", 0))
        found[name] = name if name in there or node not in by_node else by_node[node][at]
    return found


def _open_program(
    base: Runnable, applied: Applied, names: tuple[str, ...]
) -> Callable[[Feeds], Mapping[str, Array]]:
    from quantscope.run.torch import open_edited, program_of

    program = open_edited(program_of(base), applied)
    return lambda feeds: program.values(names, feeds)

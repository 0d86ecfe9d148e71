"""Find the integers that others read of a tensor which has fewer bits than its type."""

from collections import Counter
from collections.abc import Iterable, Mapping

import onnx


def behind_clips(nodes: Iterable[onnx.NodeProto]) -> Mapping[str, str]:
    """Give the value that a Clip makes of another, where nothing but the Clip reads that one.

    A network that an edit is made of does not know the names of the Clips that the edit adds.
    """
    found: dict[str, str] = {}
    readers: Counter[str] = Counter()
    for node in nodes:
        readers.update(name for name in node.input if name)
        if node.op_type == "Clip":
            found[node.input[0]] = node.output[0]
    return {name: made for name, made in found.items() if readers[name] == 1}

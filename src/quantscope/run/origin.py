"""A result says where it comes from, under the same names whatever it is a result of."""

from dataclasses import dataclass

from quantscope.model import Execution


@dataclass(frozen=True, eq=False)
class Origin:
    """The models, the execution and the data that a result was measured with.

    Results inherit it. `digest` and `float_digest` are the SHA-256 of the two models' files,
    `data_digest` that of the samples that were used.
    """

    model: str
    digest: str
    float_model: str
    float_digest: str
    execution: Execution
    data: str
    data_digest: str

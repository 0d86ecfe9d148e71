"""Export ResNet8's weights as a program, to look into it. Needs the `torch` extra."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantscope.model import Model, open_model
from quantscope.model.torch import ONE_AT_A_TIME, ProgramModel
from quantscope.zoo import build_torch, read_safetensors


@contextmanager
def exported_resnet8(weights: Model) -> Iterator[ProgramModel]:
    """Export the network that weights (.safetensors) belong to, and open it like any program.

    Its file is there only within the context: what is run and measured must be loaded by then.
    """
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / f"{weights.path.stem}.pt2"
        save_resnet8(weights.path, exported)
        program = open_model(exported)
        assert isinstance(program, ProgramModel), "a program was saved"
        yield program


def save_resnet8(weights: Path, output: Path) -> None:
    """Write the float network of these weights (.safetensors) as a program (.pt2)."""
    from quantscope.quantize.pt2e import quiet_torch

    module = build_torch(read_safetensors(weights))
    import torch

    with ONE_AT_A_TIME, quiet_torch(), torch.no_grad():
        # With an example batch of 1 export would fix the batch at 1.
        batch = torch.export.Dim("batch", min=1, max=1 << 20)
        example = (torch.zeros(2, 3, 32, 32),)
        program = torch.export.export(module, example, dynamic_shapes=({0: batch},))
        # Saved, the example would be most of the file.
        program._example_inputs = None
        torch.export.save(program, output)

"""PyTorch files are classified as torch itself does it, and refused in one line."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import quantscope
from quantscope.data import load_sample
from quantscope.errors import BadConfigError, BadDataError, BadModelError, MissingExtraError
from quantscope.quantize import PtqConfig
from quantscope.quantize.pt2e import quantize_torch
from quantscope.run import evaluate, open_runnable
from quantscope.zoo import Weights, build_torch, write_safetensors


def images(count: int) -> torch.Tensor:
    return torch.from_numpy(load_sample().take(count).images.astype(np.float32))


def save_program(module: torch.nn.Module, path: Path, example: torch.Tensor, **options) -> Path:
    torch.export.save(torch.export.export(module.eval(), (example,), **options), path)
    return path


class Softmax(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.inner(x), dim=1)


class ChannelsLast(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.inner(x.permute(0, 3, 1, 2))}


@pytest.fixture(scope="module")
def pt2e(random_weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pt2e")
    write_safetensors(random_weights, folder / "float.safetensors")
    config = PtqConfig(framework="torch", calibration_images=4)
    quantize_torch(folder / "float.safetensors", folder / "q.pt2", config)
    return folder / "q.pt2"


def test_programs_are_opened_and_run_in_several_threads_at_a_time(pt2e: Path) -> None:
    """As the playground does it; torch's own loader is for one at a time."""
    sample, threads = load_sample().take(150), torch.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: evaluate(pt2e, sample, batch=150).scores, range(8)))
    with torch.inference_mode():
        module = torch.export.load(pt2e).module()
        expected = torch.cat([module(part) for part in images(150).split(64)]).numpy()
    for scores in found:
        np.testing.assert_array_equal(scores, expected)
    assert torch.get_num_threads() == threads


def test_a_quantized_program_gives_what_torch_gives(pt2e: Path) -> None:
    sample = load_sample().take(37)
    result = evaluate(pt2e, sample, batch=16)
    module = torch.export.load(pt2e).module()
    with torch.inference_mode():
        expected = torch.cat([module(part) for part in images(37).split(16)])
    np.testing.assert_array_equal(result.scores, expected.numpy())
    assert result.execution == "reference"
    assert result.provenance["torch"] == torch.__version__
    assert result.provenance["saved with torch"] == torch.__version__
    assert result.provenance["quantscope"] == quantscope.__version__
    assert result.provenance["cpu"] == evaluate("resnet8-int8", sample.take(1)).provenance["cpu"]


def test_a_float_program_runs_too(random_weights: Weights, tmp_path: Path) -> None:
    module = build_torch(random_weights)
    path = save_program(module, tmp_path / "float.pt2", images(3))
    with torch.inference_mode():
        expected = module(images(3)).numpy()
    np.testing.assert_array_equal(evaluate(path, load_sample().take(3)).scores, expected)


def test_a_fixed_batch_is_filled_up(random_weights: Weights, tmp_path: Path) -> None:
    path = save_program(build_torch(random_weights), tmp_path / "four.pt2", images(4))
    classifier = open_runnable(path)
    assert classifier.intake.fixed_batch == 4
    result = evaluate(classifier, load_sample().take(6))
    assert len(result.scores) == 6
    with pytest.raises(BadConfigError, match="takes batches of 4 only, not 5"):
        evaluate(classifier, load_sample().take(6), batch=5)


def test_batches_stay_within_what_was_exported(random_weights: Weights, tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=3, max=5)
    module = build_torch(random_weights)
    path = save_program(module, tmp_path / "b.pt2", images(4), dynamic_shapes=({0: batch},))
    with torch.inference_mode():
        expected = module(images(11)).numpy()
    found = evaluate(path, load_sample().take(11)).scores
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_layout_is_found_from_the_programs_shape(
    random_weights: Weights, tmp_path: Path
) -> None:
    inner = build_torch(random_weights)
    last = images(2).permute(0, 2, 3, 1)
    path = save_program(ChannelsLast(inner), tmp_path / "last.pt2", last)
    with torch.inference_mode():
        expected = inner(images(2)).numpy()
    found = evaluate(path, load_sample().take(2)).scores
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_probabilities_are_known_as_such(random_weights: Weights, tmp_path: Path) -> None:
    module = Softmax(build_torch(random_weights))
    assert open_runnable(save_program(module, tmp_path / "p.pt2", images(2))).gives_probabilities


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (torch.zeros(2, 3, 16, 16), r"m\.pt2 takes input \[N,3,16,16\], which is neither layout"),
        (torch.zeros(2, 3), r"m\.pt2 takes input \[N,3\], which is neither layout"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.int8), r"takes int8, which cannot hold the pixels"),
    ],
)
def test_inputs_that_do_not_fit_are_said(
    example: torch.Tensor, message: str, tmp_path: Path
) -> None:
    class Flat(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).float()

    path = save_program(Flat(), tmp_path / "m.pt2", example)
    with pytest.raises((BadModelError, BadDataError), match=message):
        evaluate(path, load_sample().take(2))


def test_a_program_has_no_runtime_execution(pt2e: Path) -> None:
    with pytest.raises(BadConfigError, match=r"q\.pt2 is a PyTorch model, which has no runtime"):
        open_runnable(pt2e, execution="runtime")


@pytest.mark.parametrize("int8_kernels", [True, False])
def test_settings_of_onnxruntime_are_refused(pt2e: Path, int8_kernels: bool) -> None:
    with pytest.raises(BadConfigError) as error:
        evaluate(pt2e, load_sample().take(2), int8_kernels=int8_kernels)
    assert str(error.value) == (
        "q.pt2 is a PyTorch model, but int8 kernels are a setting of onnxruntime; "
        "leave --int8-kernels and --no-int8-kernels out"
    )


def test_without_torch_the_install_command_is_said(
    pt2e: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError,
        match=r"PyTorch is needed to run q\.pt2 and is not installed; install it with: pip install",
    ):
        open_runnable(pt2e)

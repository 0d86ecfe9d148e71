"""Run a PTQ study: baselines first, then every configuration against them."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from onnx import numpy_helper

from quantscope.data import load
from quantscope.errors import BadConfigError, BadModelError, QuantscopeError
from quantscope.model import (
    ModelSource,
    OnnxFile,
    bundled_models,
    find_model,
    holds_weights_alone,
    open_model,
)
from quantscope.progress import Progress, silent
from quantscope.quantize import Backend
from quantscope.study.config import StudyPlan
from quantscope.study.engine import Job, failed_row, key_of, run_jobs
from quantscope.study.folder import Row, StudyFolder, Subject, open_folder
from quantscope.study.ptq import (
    ImagesFile,
    ModelFile,
    PtqSetting,
    baseline_row,
    ptq_row,
    versions,
)
from quantscope.study.results import StudyResult, StudyRow
from quantscope.zoo import Weights, build_onnx, check_weights, read_safetensors

Models = Mapping[Backend, ModelFile]


def run_ptq_study(
    plan: StudyPlan,
    out: Path,
    *,
    model: str | Path = "resnet8",
    torch_model: str | Path | None = None,
    data: str = "sample",
    images: int | None = None,
    calibration_data: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    progress: Progress = silent,
) -> StudyResult:
    """Measure every configuration of the plan; `out` keeps each row as soon as it is there.

    `torch_model` are the same weights as safetensors; for a ResNet8 of quantscope's they are taken
    from `model`. Without them, configurations for torch are rows that say so. With an `executor`
    the models travel with the jobs; images are loaded where a job runs.
    """
    models, no_torch = float_models(model, torch_model, travelling=executor is not None)
    setting = PtqSetting(
        models=models,
        data=images_file(data, images),
        calibration=images_file(calibration_data, None) if calibration_data else None,
    )
    with open_folder(out, _subjects(setting), check=StudyRow.from_dict) as folder:
        run = partial(
            run_jobs, folder=folder, executor=executor, workers=workers, progress=progress
        )
        needed = {config.ptq.framework for config in plan.configs}
        if not needed & models.keys():
            raise BadModelError(f"None of the study's configurations can run: {no_torch}")
        baseline_jobs: dict[Backend, Job] = {
            framework: _job({"baseline": framework}, f"float {framework}", setting, framework)
            for framework in models
            if framework == "onnxruntime" or framework in needed
        }
        rows = run(
            baseline_jobs.values(),
            partial(baseline_row, setting),
            what="Baseline",
            retry_failed=True,
        )
        baselines = {framework: rows[job.key] for framework, job in baseline_jobs.items()}
        if baselines["onnxruntime"]["status"] == "failed":
            raise QuantscopeError(baselines["onnxruntime"]["reason"])
        good = {name: row for name, row in baselines.items() if row["status"] == "done"}
        impossible: dict[str, str] = {
            name: row["reason"] for name, row in baselines.items() if name not in good
        }
        if no_torch:
            impossible["torch"] = no_torch
        jobs, refused = _jobs(plan, setting, impossible)
        setting = replace(setting, baselines={name: predictions_of(r) for name, r in good.items()})
        done = run(jobs, partial(ptq_row, setting), what="Study", retry_failed=retry_failed)
        return _result(plan, folder, done | refused, good)


def float_models(
    model: ModelSource, torch_model: str | Path | None, *, travelling: bool
) -> tuple[dict[Backend, ModelFile], str]:
    """The float models, and why there is none for torch if there is none."""
    opened = open_model(model)
    path = opened.path
    if not opened.has_network:
        raise BadModelError(
            f"{path.name} is a PyTorch model; give the ONNX one with --model and this one with "
            "--torch-model"
        )
    file = opened.as_onnx("study").file
    file.check_float()
    models: dict[Backend, ModelFile] = {"onnxruntime": _model_file(path, travelling=travelling)}
    if torch_model is None and path == bundled_models()["resnet8"]:
        torch_model = "resnet8-torch"
    if torch_model is not None:
        torch_path = find_model(torch_model)
        if not holds_weights_alone(torch_path):
            raise BadModelError(f"--torch-model takes a .safetensors file, not {torch_path.name}")
        read_safetensors(torch_path)  # or it would fail in every row
        models["torch"] = _model_file(torch_path, travelling=travelling)
        return models, ""
    weights = _resnet8_weights(file)
    if weights is None:
        return models, (
            f"{path.name} is not a ResNet8 of quantscope's, so PyTorch needs its weights: "
            "--torch-model FILE.safetensors"
        )
    from safetensors.numpy import save

    content = save(dict(weights))
    digest = hashlib.sha256(content).hexdigest()
    name = f"{path.stem}.safetensors"
    models["torch"] = ModelFile(name, Path(name), digest, content)
    return models, ""


def _model_file(path: Path, *, travelling: bool) -> ModelFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadModelError(f"{path} cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(content).hexdigest()
    return ModelFile(path.name, path.absolute(), digest, content if travelling else None)


def _resnet8_weights(file: OnnxFile) -> Weights | None:
    """The weights in an ONNX file that is just what `build_onnx` makes of them."""
    proto = file.load_proto()
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    try:
        check_weights(weights, source=file.path.name)
    except BadModelError:
        return None
    return weights if list(build_onnx(weights).graph.node) == list(proto.graph.node) else None


def images_file(spec: str, count: int | None) -> ImagesFile:
    loaded = load(spec, first=count)
    if count is not None and not 1 <= count <= len(loaded):
        raise BadConfigError(f"--images {count} is not possible: {loaded.name} has {len(loaded)}")
    chosen = loaded if count is None else loaded.take(count)
    path = spec if spec in ("sample", "full") else str(Path(spec).absolute())
    return ImagesFile(path, count, chosen.digest)


def _subjects(setting: PtqSetting) -> dict[str, Subject]:
    torch_model = setting.models.get("torch")
    calibration = setting.calibration
    return {
        "model": Subject(*_name_and_digest(setting.models["onnxruntime"])),
        "PyTorch model": Subject(*_name_and_digest(torch_model))
        if torch_model
        else Subject("none", None),
        "set of images": Subject(_images_name(setting.data), setting.data.digest),
        "set of calibration images": Subject(_images_name(calibration), calibration.digest)
        if calibration
        else Subject("CIFAR-10", "cifar10 training images"),
    }


def _name_and_digest(model: ModelFile) -> tuple[str, str]:
    return model.name, model.digest


def _images_name(file: ImagesFile) -> str:
    name = Path(file.spec).name
    return name if file.count is None else f"{name}, {file.count} images"


def _job(config: Mapping[str, Any], label: str, setting: PtqSetting, framework: Backend) -> Job:
    calibration = setting.calibration.digest if setting.calibration else None
    key = key_of(
        config=config,
        model=setting.models[framework].digest,
        data=setting.data.digest,
        calibration=calibration,
        versions=versions(),
    )
    return Job(key, label, config)


def _jobs(
    plan: StudyPlan, setting: PtqSetting, impossible: Mapping[str, str]
) -> tuple[list[Job], dict[str, Row]]:
    """Give jobs for what can run, and rows, which are not kept, for what cannot run today."""
    jobs: list[Job] = []
    refused: dict[str, Row] = {}
    for config in plan.configs:
        framework, values = config.ptq.framework, config.to_dict()
        if why := impossible.get(framework):
            job = Job(key_of(config=values, model=None), config.label(), values)
            refused[job.key] = failed_row(job, f"Not run: {why}")
        else:
            jobs.append(_job(values, config.label(), setting, framework))
    return jobs, refused


def predictions_of(baseline: Row) -> dict[str, tuple[int, ...]]:
    return {
        execution: tuple(baseline[execution]["predictions"])
        for execution in ("reference", "runtime")
        if baseline[execution]
    }


def _result(
    plan: StudyPlan,
    folder: StudyFolder,
    chosen: Mapping[str, Row],
    baselines: Mapping[Backend, Row],
) -> StudyResult:
    """List this plan's rows in its order, then those that the folder has from others."""
    order = {config.label(): number for number, config in enumerate(plan.configs)}
    others = [
        row
        for key, row in folder.rows().items()
        if key not in chosen and row["config"].get("framework") in baselines
    ]
    return StudyResult.from_rows(
        [
            *sorted(chosen.values(), key=lambda row: order[row["label"]]),
            *sorted(others, key=lambda row: str(row["label"])),
        ],
        baselines=baselines,
        name=plan.name,
        skipped=plan.skipped,
        damaged=tuple(folder.damaged),
    )

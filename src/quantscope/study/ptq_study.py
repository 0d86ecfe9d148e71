"""Run a PTQ study: baselines first, then every configuration against them."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from onnx import numpy_helper

from quantscope.data import RowWishes
from quantscope.errors import BadModelError, QuantscopeError
from quantscope.model import (
    Model,
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
    TOP1,
    Answered,
    ModelFile,
    PtqSetting,
    SamplesFile,
    baseline_row,
    ptq_row,
    versions,
)
from quantscope.study.results import EXECUTIONS, StudyResult, StudyRow
from quantscope.study.setting import fit_calibration, measure_identity, settle
from quantscope.zoo import Weights, build_onnx, check_weights, read_safetensors

Models = Mapping[Backend, ModelFile]


def run_ptq_study(
    plan: StudyPlan,
    out: Path,
    *,
    model: str | Path = "resnet8",
    torch_model: str | Path | None = None,
    data: str | None = None,
    images: int | None = None,
    calibration_data: str | None = None,
    rows: RowWishes | None = None,
    measure: str | None = None,
    lower_is_better: bool = False,
    executor: Executor | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    progress: Progress = silent,
) -> StudyResult:
    """Measure every configuration of the plan; `out` keeps each row as soon as it is there.

    `model` is a float ONNX file, or a float program (`.pt2`), which torch alone quantizes.
    `torch_model` are the ONNX file's weights as safetensors; for a ResNet8 of quantscope's they are
    taken from it. Without them, configurations for torch are rows that say so.

    `data` None is what suits the model: CIFAR-10's images, or random rows, which then calibrate it
    too. `measure` None is what the data allow, as for `evaluate`. With an `executor` the models
    travel with the jobs; samples are loaded where a job runs.
    """
    models, why_not = float_models(model, torch_model, travelling=executor is not None)
    setting = settle(
        open_model(model),
        models,
        data=data,
        images=images,
        calibration_data=calibration_data,
        rows=rows,
        measure=measure,
        lower_is_better=lower_is_better,
        most_calibration=max(config.ptq.calibration_images for config in plan.configs),
    )
    plan = fit_calibration(plan, setting)
    with open_folder(out, _subjects(setting), check=StudyRow.from_dict) as folder:
        run = partial(
            run_jobs, folder=folder, executor=executor, workers=workers, progress=progress
        )
        needed = {config.ptq.framework for config in plan.configs}
        if not needed & models.keys():
            raise BadModelError(f"None of the study's configurations can run: {why_not}")
        main = setting.main
        baseline_jobs: dict[Backend, Job] = {
            framework: _job({"baseline": framework}, f"float {framework}", setting, framework)
            for framework in models
            if framework == main or framework in needed
        }
        float_rows = run(
            baseline_jobs.values(),
            partial(baseline_row, setting),
            what="Baseline",
            retry_failed=True,
        )
        baselines = {framework: float_rows[job.key] for framework, job in baseline_jobs.items()}
        if baselines[main]["status"] == "failed":
            raise QuantscopeError(baselines[main]["reason"])
        good = {name: row for name, row in baselines.items() if row["status"] == "done"}
        impossible: dict[str, str] = {
            name: row["reason"] for name, row in baselines.items() if name not in good
        }
        impossible |= dict.fromkeys(needed - models.keys(), why_not)
        jobs, refused = _jobs(plan, setting, impossible)
        setting = replace(setting, baselines={name: answers_of(r) for name, r in good.items()})
        done = run(jobs, partial(ptq_row, setting), what="Study", retry_failed=retry_failed)
        return _result(plan, folder, done | refused, good)


def float_models(
    model: ModelSource, torch_model: str | Path | None, *, travelling: bool
) -> tuple[dict[Backend, ModelFile], str]:
    """Give the float models by backend, the main one first, and why another has none."""
    opened = open_model(model)
    path = opened.path
    if opened.as_program is not None:
        return _program(opened, torch_model, travelling=travelling)
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


def _program(
    program: Model, torch_model: str | Path | None, *, travelling: bool
) -> tuple[dict[Backend, ModelFile], str]:
    """Take a float program of PyTorch: it is quantized by torch, and by nothing else."""
    if torch_model is not None:
        raise BadModelError(f"{program.name} is a PyTorch program itself; leave --torch-model out")
    if not program.is_float:
        raise BadModelError(
            f"{program.path} is quantized already; give the float program that it was made from"
        )
    file = _model_file(program.path, travelling=travelling)
    return {"torch": file}, (
        f"{program.name} is a PyTorch program, which onnxruntime does not quantize; give the same "
        f"network as ONNX with --model"
    )


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


def _subjects(setting: PtqSetting) -> dict[str, Subject]:
    torch_model = setting.models.get("torch")
    onnx_model = setting.models.get("onnxruntime")
    calibration = setting.calibration
    return {
        "model": Subject(*_name_and_digest(onnx_model)) if onnx_model else Subject("none", None),
        "PyTorch model": Subject(*_name_and_digest(torch_model))
        if torch_model
        else Subject("none", None),
        "set of images": Subject(_samples_name(setting.data), setting.data.digest),
        "set of calibration images": Subject(_samples_name(calibration), calibration.digest)
        if calibration
        else Subject("CIFAR-10", "cifar10 training images"),
        "measure": Subject(*measure_identity(setting.measure)),
    }


def _name_and_digest(model: ModelFile) -> tuple[str, str]:
    return model.name, model.digest


def _samples_name(file: SamplesFile) -> str:
    name = Path(file.spec).name
    return name if file.count is None else f"{name}, {file.count} images"


def _job(config: Mapping[str, Any], label: str, setting: PtqSetting, framework: Backend) -> Job:
    calibration = setting.calibration.digest if setting.calibration else None
    # Rows from before there were other measures go by keys without one.
    measured = {} if setting.measure == TOP1 else {"measure": measure_identity(setting.measure)[1]}
    key = key_of(
        **measured,
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


def answers_of(baseline: Row) -> Answered:
    """Give what the rows are compared with, sample by sample; nothing without a float score."""
    measured = {name: baseline[name] for name in EXECUTIONS if baseline[name]}
    found = {}
    for execution, facts in measured.items():
        kept = facts["per_sample"] if facts.get("per_sample") else facts["predictions"]
        if facts.get("score") is None or facts["score"]["value"] is not None:
            found[execution] = tuple(kept)
    return found


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

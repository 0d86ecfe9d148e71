"""Studies: many configurations of one model, run on any `concurrent.futures` executor.

Rows are on disk as they come; a study that was killed goes on where it was.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quantscope.study.engine import Job, key_of, run_jobs
from quantscope.study.folder import StudyFolder, Subject, open_folder
from quantscope.study.pools import dask_executor
from quantscope.study.results import (
    Change,
    Measured,
    StudyResult,
    StudyRow,
    StudyScore,
    write_results,
)

if TYPE_CHECKING:
    from quantscope.study.config import StudyConfig, StudyPlan, preset, read_plan
    from quantscope.study.ptq_study import run_ptq_study
    from quantscope.study.trials import Trial, Trials

__all__ = [
    "Change",
    "Job",
    "Measured",
    "StudyConfig",
    "StudyFolder",
    "StudyPlan",
    "StudyResult",
    "StudyRow",
    "StudyScore",
    "Subject",
    "Trial",
    "Trials",
    "dask_executor",
    "key_of",
    "open_folder",
    "preset",
    "read_plan",
    "run_jobs",
    "run_ptq_study",
    "write_results",
]

_PTQ = dict.fromkeys(("StudyPlan", "StudyConfig", "preset", "read_plan"), "config")
_PTQ["run_ptq_study"] = "ptq_study"
_PTQ |= dict.fromkeys(("Trial", "Trials"), "trials")


def __getattr__(name: str) -> Any:
    # Every worker process imports this room; only those that quantize pay for the quantizers.
    if name not in _PTQ:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PTQ[name]}"), name)

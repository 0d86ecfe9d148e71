"""All kinds of hostile files, by name."""

from attack import Case
from hostile_hdf5 import keras_case
from hostile_npz import npz_case
from hostile_onnx import onnx_case
from hostile_pictures import pictures_case
from hostile_places import place_case
from hostile_study import study_case
from hostile_texts import text_case
from hostile_torch import torch_case

KINDS: dict[str, Case] = {
    "onnx": onnx_case,
    "torch": torch_case,
    "hdf5": keras_case,
    "npz": npz_case,
    "pictures": pictures_case,
    "study": study_case,
    "text": text_case,
    "place": place_case,
}

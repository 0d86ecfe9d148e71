"""Folders of pictures: one sub-folder a class, or flat; decoded when a batch is asked for.

- `folder.py` finds the pictures and their classes, and makes `Samples` of them.
- `steps.py` says how a picture becomes numbers: by the person's wishes, the model's input, and the
  `preprocessor_config.json` that vision models on model hubs carry (`preprocessor.py`).
- `rows.py` decodes them: `PictureRows` stands where an array does.
"""

from quantscope.data.pictures.folder import load_pictures
from quantscope.data.pictures.rows import PictureRows
from quantscope.data.pictures.steps import PictureSteps

__all__ = ["PictureRows", "PictureSteps", "load_pictures"]

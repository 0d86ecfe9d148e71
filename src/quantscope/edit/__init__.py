"""Models made from models; nothing here executes one, and none is changed in place."""

from quantscope.edit.lift import lift_to_qdq

__all__ = ["lift_to_qdq"]

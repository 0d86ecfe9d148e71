"""Recipes keep edits as a file: which model they are for, what they are, and what they did."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from quantscope.edit.applied import Applied
from quantscope.edit.editor import Editor
from quantscope.edit.edits import Edit
from quantscope.edit.edits_json import edit_from_dict, edit_to_dict
from quantscope.edit.parse import describe
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.files import parse_json, read_bytes, write_whole

FORMAT = "quantscope recipe 1"

_DIGEST_LENGTH = 64
_MOST_BYTES = 64 * 2**20
_NAMED = 4
_FIELDS = ("format", "title", "base_model", "base_digest", "note", "edits", "effect")


@dataclass(frozen=True)
class Recipe:
    """A list of edits for one model.

    `base_digest` is the sha256 of that model, `base_model` its name for people. `effect` is what
    was measured, with its provenance, as plain values for JSON; None if nothing was.
    """

    base_digest: str
    edits: tuple[Edit, ...]
    note: str = ""
    effect: Mapping[str, Any] | None = None
    title: str = ""
    base_model: str = ""

    def to_json(self) -> str:
        """Write one edit a line, so that two recipes can be compared line by line."""
        head = {
            "format": FORMAT,
            "title": self.title,
            "base_model": self.base_model,
            "base_digest": self.base_digest,
            "note": self.note,
        }
        lines = [f"  {_text(key)}: {_text(value)}" for key, value in head.items() if value]
        edits = ",\n".join(f"    {_text(edit_to_dict(edit))}" for edit in self.edits)
        lines.append(f'  "edits": [\n{edits}\n  ]' if self.edits else '  "edits": []')
        if self.effect is not None:
            effect = _text(dict(self.effect), indent=2).replace("\n", "\n  ")
            lines.append(f'  "effect": {effect}')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def save(self, path: Path | str) -> None:
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def from_json(cls, text: str, *, source: str = "The recipe") -> "Recipe":
        """Read a recipe; `source` begins the one line that says what is wrong with it."""
        try:
            given = parse_json(text)
        except ValueError as error:
            raise BadConfigError(f"{source} is not JSON: {error}") from None
        try:
            return _recipe(given)
        except BadConfigError as error:
            raise BadConfigError(f"{source} is not a recipe: {error}") from None

    @classmethod
    def load(cls, path: Path | str) -> "Recipe":
        path = Path(path)
        content = read_bytes(path, "a recipe", kind=BadConfigError, most_bytes=_MOST_BYTES)
        try:
            text = content.decode("utf-8")
        except ValueError:
            raise BadConfigError(f"{path} is not a recipe: it is not UTF-8 text") from None
        return cls.from_json(text, source=str(path))


def replay(
    recipe: Recipe, editor: Editor, *, other_model_ok: bool = False
) -> tuple[Applied, tuple[tuple[Edit, str], ...]]:
    """Apply the recipe's edits to the editor's model; give also those that could not be, with why.

    On the recipe's own model an edit that cannot be applied is an error; on another one, which
    `other_model_ok` allows, it is left out, and only if none can be applied that is an error.
    """
    model = editor.model
    if recipe.base_digest == model.digest:
        return editor.apply(recipe.edits), ()
    if not other_model_ok:
        wanted = f"{recipe.base_model} ({recipe.base_digest[:12]})" * bool(recipe.base_model)
        raise BadConfigError(
            f"The recipe is for {wanted or recipe.base_digest[:12]}, and {model.name} is "
            f"{model.digest[:12]}; give its own model, or allow another one"
        )
    applied, skipped = _apply_what_fits(recipe.edits, editor)
    if skipped and not applied.edits:
        raise BadConfigError(_nothing_fits(skipped, model.name))
    return applied, skipped


def _nothing_fits(skipped: Sequence[tuple[Edit, str]], model: str) -> str:
    # What an error proposes comes second, and is too long for one line about many edits.
    reasons = [f"{describe(e)} ({re.split(r'; |[.] ', why)[0]})" for e, why in skipped[:_NAMED]]
    more = len(skipped) - len(reasons)
    text = f"None of the {len(skipped)} edits of the recipe can be applied to {model}"
    if len(skipped) == 1:
        text = f"The recipe's only edit cannot be applied to {model}"
    return f"{text}: {'; '.join(reasons)}{f'; and {more} more' * bool(more)}"


def _apply_what_fits(
    edits: Sequence[Edit], editor: Editor
) -> tuple[Applied, tuple[tuple[Edit, str], ...]]:
    """Apply edit by edit, since one may fit only after those before it; leave out what fails."""
    applied, skipped = editor.apply([]), []
    for edit in edits:
        try:
            applied = editor.apply([*applied.edits, edit])
        except QuantscopeError as error:
            skipped.append((edit, str(error)))
    return applied, tuple(skipped)


def guided_recipes() -> dict[str, Recipe]:
    """Read the recipes for the bundled models that each teach one thing, by a short name."""
    folder = Path(str(resources.files("quantscope.edit") / "guided"))
    return {path.stem: Recipe.load(path) for path in sorted(folder.glob("*.json"))}


def _recipe(given: Any) -> Recipe:
    """Make a recipe of what a JSON file holds; raise half a line, which `from_json` begins."""
    if not isinstance(given, dict):
        raise BadConfigError("it is no object with edits")
    kind = given.get("format")
    if kind != FORMAT:
        raise BadConfigError(f"its format is {kind!r}, not {FORMAT!r}")
    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise BadConfigError(f"it has {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    for name in ("title", "base_model", "note", "base_digest"):
        if not isinstance(given.get(name, ""), str):
            raise BadConfigError(f"its {name!r} is no text")
    digest = given.get("base_digest", "")
    if len(digest) != _DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise BadConfigError(
            "its 'base_digest' is not the sha256 of a model, 64 hexadecimal digits"
        )
    edits, effect = given.get("edits"), given.get("effect")
    if not isinstance(edits, list):
        raise BadConfigError("its 'edits' are no list")
    if effect is not None and not isinstance(effect, dict):
        raise BadConfigError("its 'effect' is no object")
    return Recipe(
        base_digest=digest,
        edits=tuple(_edit(place, edit) for place, edit in enumerate(edits, start=1)),
        note=given.get("note", ""),
        effect=effect,
        title=given.get("title", ""),
        base_model=given.get("base_model", ""),
    )


def _edit(place: int, given: Any) -> Edit:
    try:
        return edit_from_dict(given)
    except BadConfigError as error:
        raise BadConfigError(f"edit {place}: {error}") from None


def _text(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        raise BadConfigError(
            "The recipe holds NaN or infinity, which a JSON file cannot hold"
        ) from None

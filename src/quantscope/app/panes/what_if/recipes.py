"""Keeping what was found: recipes saved and loaded, the edited model downloaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import marimo as mo

from quantscope.app.editing import Edits
from quantscope.app.place import Given
from quantscope.app.widgets import Recipes
from quantscope.edit import Recipe, describe, guided_recipes, replay
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.model import bundled_models
from quantscope.plain_text import many

if TYPE_CHECKING:
    from quantscope.app.panes.what_if.bench import Workbench


class Keeping:
    """The recipe that was asked for last is remembered while its own model is being opened."""

    def __init__(self, bench: "Workbench") -> None:
        self.bench = bench
        self._guided = guided_recipes()
        self._asked: Recipe | None = None
        self._loaded: Edits = ()
        self._opening = False
        self.widget = Recipes(
            guided=[
                {"key": key, "title": recipe.title, "note": recipe.note, "model": recipe.base_model}
                for key, recipe in self._guided.items()
            ]
        )
        self.widget.on_msg(self._on_message)

    def downloads(self) -> tuple[mo.Html, mo.Html]:
        """Both make their file when they are clicked."""
        return (
            mo.download(
                lambda: self.recipe().to_json().encode(),
                filename=lambda: f"{self._stem()}-recipe.json",
                mimetype="application/json",
                label="save the recipe",
            ),
            mo.download(
                self._model,
                filename=lambda: f"{self._stem()}-edited{self.bench.editor.suffix}",
                mimetype="application/octet-stream",
                label="download the edited model",
            ),
        )

    def recipe(self) -> Recipe:
        """The edits in force, with what was measured of them."""
        bench = self.bench
        answer = bench.answer
        measured = answer is not None and answer.edits == bench.page.edits
        return Recipe(
            base_digest=bench.editor.model.digest,
            base_model=bench.session.opened.name,
            edits=bench.page.edits,
            note=self.widget.note,
            effect=answer.measured() if answer is not None and measured else None,
        )

    def _model(self) -> bytes:
        return self.bench.applied.to_bytes()

    def opened(self) -> None:
        recipe, opening = self._asked, self._opening
        self._opening = False
        self._say()
        if opening and recipe is not None:
            self._load(recipe)

    def edited(self) -> None:
        """A guided recipe is in force only as long as nothing else is done."""
        if self.bench.page.edits != self._loaded:
            self.widget.loaded = ""

    def _stem(self) -> str:
        return Path(self.bench.session.opened.name).stem

    def _on_message(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        match message.get("do"):
            case "guided" if message.get("key") in self._guided:
                key = str(message["key"])
                self._load(self._guided[key])
            case "file":
                self._read(str(message.get("name", "")), str(message.get("text", "")))
            case "fitting" if self._asked is not None:
                self._load(self._asked, other_model_ok=True)
            case "open" if self._asked is not None:
                self._opening = True
                self.bench.page.open(Given(self._asked.base_model))

    def _read(self, name: str, text: str) -> None:
        try:
            recipe = Recipe.from_json(text, source=name or "The file")
        except BadConfigError as error:
            self._say(refused=str(error))
            return
        self._load(recipe)

    def _load(self, recipe: Recipe, *, other_model_ok: bool = False) -> None:
        """Its edits take the place of those in force."""
        bench = self.bench
        self._asked = recipe
        try:
            applied, skipped = replay(recipe, bench.editor, other_model_ok=other_model_ok)
        except QuantscopeError as error:
            self._refuse(recipe, str(error), tried=other_model_ok)
            return
        bench.put_applied(applied)
        bench.refresh()
        self._loaded = applied.edits
        lines = [f"Left out: {describe(edit)}. {why}" for edit, why in skipped]
        lines.insert(0, f"{many(len(applied.edits), 'edit')} loaded: {_title(recipe)}")
        self._say(said=lines)
        key = next((key for key, known in self._guided.items() if known == recipe), "")
        with self.widget.hold_sync():
            self.widget.loaded = key
            if not key:
                self.widget.note = recipe.note

    def _refuse(self, recipe: Recipe, why: str, *, tried: bool) -> None:
        """`tried`: to apply what fits another model, so that is not offered again."""
        bench = self.bench
        other = recipe.base_digest != bench.editor.model.digest
        model = recipe.base_model if other and recipe.base_model in bundled_models() else ""
        self._say(refused=why, fits=other and not tried, model=model)

    def _say(
        self,
        *,
        refused: str = "",
        fits: bool = False,
        model: str = "",
        said: list[str] | None = None,
    ) -> None:
        with self.widget.hold_sync():
            self.widget.refused = {"text": refused, "fits": fits, "model": model}
            self.widget.said = said or []


def _title(recipe: Recipe) -> str:
    return recipe.title or recipe.note.partition("\n")[0] or "without a note"

"""Say where a page is in its address: loaded again, or passed on, it shows the same.

What the command has opened, and where every page begins, is left out of the address.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

from quantscope.app.editing import Edits, edits_from_address, edits_to_address
from quantscope.app.opened import DEFAULT_MODEL, keep_samples, open_pair
from quantscope.app.session import Session, session_for
from quantscope.data import PictureWishes, RowWishes
from quantscope.errors import BadConfigError, QuantscopeError
from quantscope.model import Execution, Layer, Network, QuantTensor
from quantscope.report import layer_tensors
from quantscope.run import Measure, find_measure


@dataclass(frozen=True)
class Selection:
    """A layer and a tensor of it.

    `layer` None is the model's input; `tensor` None where nothing of the layer is quantized.
    """

    layer: str | None
    tensor: str | None

    def to_dict(self) -> dict[str, str]:
        """Give it as the browser has it, with empty texts for None."""
        return {"layer": self.layer or "", "tensor": self.tensor or ""}

    @classmethod
    def from_dict(cls, sent: dict[str, str]) -> "Selection":
        return cls(sent.get("layer") or None, sent.get("tensor") or None)


def select_layer(layer: Layer) -> Selection:
    """Select a layer by its output, or by its weights where the output is not quantized."""
    output = next((o.quant for o in layer.outputs if o.quant), None)
    tensor = output or layer.weight or layer.bias
    return Selection(layer.name, tensor.name if tensor else None)


def select_tensor(tensor: QuantTensor) -> Selection:
    """Select a tensor with the layer that makes it, a constant with the first that reads it."""
    owner = tensor.producer
    if owner is None and tensor.role != "activation" and tensor.consumers:
        owner = tensor.consumers[0]
    return Selection(owner, tensor.name)


def first_selection(network: Network) -> Selection:
    """Select the first layer with weights: there is most to see of it."""
    layers = network.layers
    found = next((layer for layer in layers if layer.weight), layers[0] if layers else None)
    return select_layer(found) if found else Selection(None, None)


def fitting(selection: Selection, network: Network) -> Selection:
    """Find the same place in another network; its first where it has no such."""
    layer = next((x for x in network.layers if x.name == selection.layer), None)
    if layer is not None:
        names = [tensor.name for tensor in layer_tensors(layer)]
        return selection if selection.tensor in names else select_layer(layer)
    if selection.layer is None and any(t.name == selection.tensor for t in network.tensors):
        return selection
    return first_selection(network)


TABS = (
    "Diagnose",
    "Layer",
    "Network",
    "Samples",
    "What if",
    "Residuals",
    "Trace",
    "Bits",
    "Quantize",
    "Help",
)
COLOUR = "sqnr"
_ONCE_CALLED = {"Images": "Samples", "Layers": "Network", "PTQ lab": "Quantize"}
"""Tabs by the names that older links have."""


@dataclass(frozen=True)
class Given:
    """A pair and samples as a person gave them: paths or bundled names, empty where left out."""

    model: str = DEFAULT_MODEL
    float_model: str = ""
    data: str = ""
    wishes: RowWishes = field(default_factory=RowWishes)
    measure: str = ""
    """The measure, as --measure has it. A function of a person's own is code that is run, so
    only the command names it, never an address or the form."""
    lower_is_better: bool = False

    def open(self) -> Session:
        floats = _at_home(self.float_model) if self.float_model else None
        opened = open_pair(_at_home(self.model), floats)
        data = str(_at_home(self.data)) if self.data else ""
        samples = keep_samples(data, opened.model, self.wishes)
        return session_for(opened, samples, self._measure())

    def with_random_rows(self) -> "Given":
        """Give the same model with rows made at random in the shapes that were wished for."""
        shapes = RowWishes(shapes=self.wishes.shapes, seed=self.wishes.seed)
        return replace(self, data="random", wishes=shapes)

    def count_as(self, other: "Given") -> "Given":
        """Give the same with the measure of `other`."""
        return replace(self, measure=other.measure, lower_is_better=other.lower_is_better)

    def _measure(self) -> Measure | None:
        if not self.measure:
            return None
        return find_measure(self.measure, lower_is_better=self.lower_is_better)

    def to_arguments(self) -> list[str]:
        """Give it as arguments of the notebook; `from_arguments` reads them."""
        told = {f"--{key}": value for key, value in self.to_dict().items()}
        told["--measure"] = self.measure
        told["--lower"] = "yes" if self.lower_is_better else ""
        told["--wishes"] = "" if self.wishes == RowWishes() else dumps(asdict(self.wishes))
        return [part for option, value in told.items() if value for part in (option, value)]

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "Given":
        told = {key: str(value or "") for key, value in arguments.items()}
        wishes = RowWishes()
        if text := told.get("wishes"):
            found = loads(text)
            pictures: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in found["pictures"].items()
            }
            shapes = {name: tuple(shape) for name, shape in found["shapes"].items()}
            wishes = RowWishes(shapes, PictureWishes(**pictures), found["seed"])
        return cls(
            told.get("model") or DEFAULT_MODEL,
            told.get("float", ""),
            told.get("data", ""),
            wishes,
            told.get("measure", ""),
            lower_is_better=bool(told.get("lower")),
        )

    def to_dict(self) -> dict[str, str]:
        """Give it as the form of the page has it."""
        return {"model": self.model, "float": self.float_model, "data": self.data}


@dataclass(frozen=True)
class Place:
    """The place that an address says.

    `given` None is what the command opened, `selection` None where a page begins.
    """

    given: Given | None = None
    selection: Selection | None = None
    tab: str = TABS[0]
    execution: Execution = "reference"
    edits: Edits = ()
    colour: str = COLOUR
    """The key of the metric that the network is coloured by."""
    unread: str = ""
    """A line that says why the edits of the address are not these."""

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> "Place":
        """Read an address. What cannot be meant is left out, for it may have been typed."""
        told = {key: _last(value) for key, value in query.items()}
        model, tab = told.get("model", ""), told.get("tab", "")
        tab = _ONCE_CALLED.get(tab, tab)
        selection = Selection(told.get("layer") or None, told.get("tensor") or None)
        edits, unread = _edits(told.get("edits", ""))
        return cls(
            given=Given(model, told.get("float", ""), told.get("data", "")) if model else None,
            selection=None if selection == Selection(None, None) else selection,
            tab=tab if tab in TABS else TABS[0],
            execution="runtime" if told.get("run") == "runtime" else "reference",
            edits=edits,
            colour=told.get("colour") or COLOUR,
            unread=unread,
        )

    def to_query(self, network: Network, usual: Selection | None = None) -> dict[str, str]:
        """Give every key of ours; what is empty does not stand in the address.

        `usual` is what a page selects by itself, the first layer unless told.
        """
        given = self.given or Given("")
        usual = usual or first_selection(network)
        chosen = self.selection or usual
        named = {"layer": "", "tensor": ""} if chosen == usual else chosen.to_dict()
        # The layer alone would select the same tensor.
        if chosen == fitting(Selection(chosen.layer, None), network):
            named["tensor"] = ""
        tab = "" if self.tab == TABS[0] else self.tab
        run = "" if self.execution == "reference" else self.execution
        return {
            **given.to_dict(),
            **named,
            "tab": tab,
            "run": run,
            "colour": "" if self.colour == COLOUR else self.colour,
            "edits": edits_to_address(self.edits),
        }

    def selection_in(self, network: Network) -> Selection:
        """Give the selection as far as the network has it."""
        return fitting(self.selection, network) if self.selection else first_selection(network)


@dataclass(frozen=True)
class Beginning:
    """The beginning of a page. `home` is what the command was given; `error` a line to show."""

    session: Session
    place: Place
    home: Given
    error: str = ""


def begin_at(arguments: Mapping[str, Any], query: Mapping[str, Any]) -> Beginning:
    """Open what the address asks for, else what the command does, else the default.

    The beginning then has the first error as a line.
    """
    home = Given.from_arguments(arguments)
    place, error = Place.from_query(query), ""
    for asked in (place.given, home):
        try:
            if asked is not None:
                given = asked.count_as(home)
                shown = replace(place, given=None if given == home else given)
                return Beginning(given.open(), shown, home, error or place.unread)
        except QuantscopeError as found:
            error = error or str(found)
    return Beginning(Given().open(), replace(place, given=Given()), home, error)


def _edits(text: str) -> tuple[Edits, str]:
    """Read edits, or say in a line why there are none."""
    try:
        return edits_from_address(text), ""
    except QuantscopeError as error:
        return (), f"{error}; the model is shown without them"


def _at_home(path: str) -> Path:
    """Expand ~ as a shell does."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadConfigError(f"{path} is in no known home folder; give the whole path") from None


def _last(value: Any) -> str:
    """Take the last value of a key that stands in the address more than once."""
    return str(value[-1] if isinstance(value, list) and value else value or "")

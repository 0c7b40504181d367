"""Declarations of an operator's inputs and outputs. The runtime checks them, the docs show them, and a test compares them with reality.

A schema declares an :class:`Input` for each input and an :class:`Output` for each output; the last entry describes all further inputs::

    accepts=(Input((UINT8, FLOAT), listed("HWC", "FHWC"), "images"),),
    gives=(Output(type=argument("dtype")),),

Before an operator prepares or plans an iteration, the runtime compares element types, numbers of dimensions (ranks) and layouts of its
inputs with the last accepted ones. Only if they differ, the declaration is checked (:func:`check_inputs`). Undeclared input is refused.

An operator that does not look for letters accepts any layout (:data:`ANY_LAYOUT`). All others refuse layouts with repeated letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, SampleError
from ..types import DALIDataType
from ..types.conversions import STORAGE

if TYPE_CHECKING:
    import numpy as np

    from ..batch import Batch
    from .spec import Spec

UNSIGNED = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64)
SIGNED = (DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64)
INTEGERS = (*UNSIGNED, *SIGNED)
FLOATS = (DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64)
NUMBERS = (*INTEGERS, *FLOATS)
NUMBERS_AND_BOOL = (*NUMBERS, DALIDataType.BOOL)
ELEMENTS = tuple(STORAGE)
"""Types whose elements have a size: numbers, BOOL and enumerations."""
ANY_TYPE = tuple(DALIDataType)
"""For operators that do not touch elements."""

_MANY = 64
"""More dimensions than a sample has."""
ANY_RANK = range(_MANY)


def at_least(rank: int) -> range:
    """Numbers of dimensions from `rank` on."""
    return range(rank, _MANY)


def _ranks_text(ranks: Sequence[int]) -> str:
    if len(ranks) > 1 and ranks[-1] == _MANY - 1:
        return "any" if ranks[0] == 0 else f"{ranks[0]} or more"
    return " or ".join(map(str, ranks)) if len(ranks) < 3 else f"{ranks[0]} to {ranks[-1]}"


_SETS = {
    ELEMENTS: "numbers, BOOL, enumerations", ANY_TYPE: "any", NUMBERS: "numbers", NUMBERS_AND_BOOL: "numbers, BOOL", INTEGERS: "integers",
}  # fmt: skip


def _types_text(types: tuple[DALIDataType, ...], spelled_out: bool = False) -> str:
    short = None if spelled_out else _SETS.get(types)
    return ", ".join(kind.name for kind in types) if short is None else short


class Layouts(NamedTuple):
    """Layouts that an input may have.

    text      for docs and errors
    test      whether a layout is one of them
    assumed   the layout assumed for unlabelled data with a number of dimensions ("": it does not matter; None: refused)
    """

    text: str
    test: Callable[[str], bool]
    assumed: Callable[[int], str | None] = lambda rank: ""


def listed(*names: str) -> Layouts:
    """One of `names`. Unlabelled data is assumed to have the first one with its number of dimensions."""
    by_rank: dict[int, str] = {}
    for name in names:
        by_rank.setdefault(len(name), name)
    return Layouts(", ".join(names), frozenset(names).__contains__, by_rank.get)


def matching(text: str, test: Callable[[str], bool], assumed: Callable[[int], str | None] = lambda rank: "") -> Layouts:
    """Layouts without repeated letters for which `test` is true; `text` describes them."""
    return Layouts(text, lambda layout: not repeated_letter(layout) and test(layout), assumed)


ANY_LAYOUT = Layouts("any", lambda layout: True)
SEQUENCES = matching("F first", lambda layout: layout[0] == "F")
"""Without a layout the first axis counts frames."""


def repeated_letter(layout: str) -> str:
    """The first repeated letter; "" if there is none. An asterisk is an unnamed axis and no letter."""
    return next((letter for k, letter in enumerate(layout) if letter != "*" and letter in layout[:k]), "")


@dataclass(frozen=True)
class Input:
    """One input of an operator.

    types     element types
    layouts   see :func:`listed` and :func:`matching`
    name      the input's name in errors and docs
    ranks     numbers of dimensions; None: those of listed layouts
    like      properties that must equal those of the first input: "type", "rank", "shape"
    likely    the type for which ``build()`` prepares if the type is known only at run time; the first of `types` if it is not accepted
    """

    types: tuple[DALIDataType, ...]
    layouts: Layouts = ANY_LAYOUT
    name: str = "data"
    ranks: Sequence[int] | None = None
    like: tuple[str, ...] = ()
    likely: DALIDataType = DALIDataType.UINT8

    def known_type(self, dtype: DALIDataType | None) -> DALIDataType | None:
        """`dtype`, or the only type that is accepted."""
        return self.types[0] if dtype is None and len(self.types) == 1 else dtype

    def likely_type(self, dtype: DALIDataType | None) -> DALIDataType:
        """`dtype`, or the type for which ``build()`` prepares."""
        return dtype if dtype is not None else self.likely if self.likely in self.types else self.types[0]

    def layout(self, batch: Batch) -> str:
        """The layout of an accepted batch, or the assumed one."""
        return batch.layout or self.layouts.assumed(batch.ndim) or ""

    def refusal(self, position: int, batch: Batch, first: Batch) -> str:
        """Why `batch` is not accepted at `position`; "" if it is accepted. `first` is the first input."""
        own = self._type(position, batch) or self._rank(position, batch) or self.refusal_of_layout(position, batch)
        return own or self._like(position, batch, first)

    def _type(self, position: int, batch: Batch) -> str:
        if batch.dtype in self.types:
            return ""
        allowed = _types_text(self.types, spelled_out=True)
        return f"Unsupported input type {batch.dtype.name} (input {position}, {self.name}); supported types are: {allowed}."

    def _rank(self, position: int, batch: Batch) -> str:
        if self.ranks is None or batch.ndim in self.ranks:
            return ""
        allowed = _ranks_text(self.ranks)
        layout = f' (layout "{batch.layout}")' if batch.layout else ""
        return f"Input {position} ({self.name}) has {batch.ndim} dimensions{layout}; supported are: {allowed}."

    def refusal_of_layout(self, position: int, batch: Any) -> str:
        """Why the layout of `batch`, or its absence, is not accepted; "" if it is. Reads ``batch.layout`` and ``batch.ndim`` only."""
        layouts = self.layouts
        if batch.layout:
            if layouts.test(batch.layout):
                return ""
            given = f'The layout "{batch.layout}"'
            twice = repeated_letter(batch.layout)
            given += f", in which the letter {twice} occurs twice," if twice else ""
        else:
            if layouts.assumed(batch.ndim) is not None:
                return ""
            given = f"The number of dimensions {batch.ndim}"
        return (
            f"{given} does not match any of the allowed layouts for input {position} ({self.name}). Valid layouts are: {layouts.text}. "
            "`fn.reshape` with `layout` gives data another one."
        )

    def _like(self, position: int, batch: Batch, first: Batch) -> str:
        for what, own, wanted in (("type", batch.dtype.name, first.dtype.name), ("rank", batch.ndim, first.ndim)):
            if own != wanted and (what in self.like or (what == "rank" and "shape" in self.like)):
                called = {"type": "type", "rank": "number of dimensions"}[what]
                return f"All inputs must have the same {called}. Input 0 has {wanted}, input {position} ({self.name}) has {own}."
        return ""

    def describe(self) -> str:
        """For the docs: types; ranks; layouts; relation."""
        parts = [f"types: {_types_text(self.types)}"]
        if self.ranks is not None and self.ranks is not ANY_RANK:
            parts.append(f"dimensions: {_ranks_text(self.ranks)}")
        if self.layouts is not ANY_LAYOUT:
            parts.append(f"layouts: {self.layouts.text}")
        if self.like:
            parts.append(f"same {' and '.join(self.like)} as input 0")
        return "; ".join(parts)


ANYTHING = Input(ANY_TYPE, ranks=ANY_RANK)
"""For operators that read metadata only, or that pass samples on."""
DATA = Input(ELEMENTS, ranks=ANY_RANK)
"""For operators that move elements of any type."""


# --- outputs


class _Typed(NamedTuple):
    """Stands for an input of which only the type is known, or not even this."""

    dtype: Any


class Rule(NamedTuple):
    """How a property of an output follows from inputs and arguments.

    text    for the docs
    value   ``value(what, spec, inputs, layouts)`` returns it. `what` is "type", "rank" or "layout"; `layouts` are the actual or assumed
            layouts of the inputs. None: known only at run time
    """

    text: str
    value: Callable[[str, Spec, Sequence[Batch], Sequence[str]], Any] | None


def of_input(position: int) -> Rule:
    """The property of an input."""

    def value(what: str, spec: Spec, inputs: Sequence[Batch], layouts: Sequence[str]) -> str | int:
        return layouts[position] if what == "layout" else inputs[position].dtype if what == "type" else inputs[position].ndim

    return Rule(f"as input {position}", value)


LIKE = of_input(0)
CHOSEN = Rule("by the arguments", None)


def argument(name: str, otherwise: object = LIKE) -> Rule:
    """The value of the argument `name`. If it is not given (None or ""): `otherwise`, a value or a rule."""

    def value(what: str, spec: Spec, inputs: Sequence[Batch], layouts: Sequence[str]) -> object:
        given = spec.constant(name)
        if given is not None and given != "":
            return given
        return otherwise.value(what, spec, inputs, layouts) if isinstance(otherwise, Rule) and otherwise.value else otherwise

    default = otherwise.text if isinstance(otherwise, Rule) else _value_text(otherwise)
    return Rule(f"`{name}`, default {default}", value)


def _shifted(text: str, by: int) -> Rule:
    def value(what: str, spec: Spec, inputs: Sequence[Batch], layouts: Sequence[str]) -> int | str:
        return inputs[0].ndim + by if what == "rank" else layouts[0][1:]

    return Rule(text, value)


ONE_LESS = _shifted("as input 0 without its first axis", -1)
ONE_MORE = _shifted("one more than input 0", 1)


def _value_text(value: object) -> str:
    if isinstance(value, Rule):
        return value.text
    if isinstance(value, DALIDataType):
        return value.name
    return "none" if value == "" else str(value)


@dataclass(frozen=True)
class Output:
    """One output of an operator: values, or a :class:`Rule`. By default like the first input."""

    type: DALIDataType | Rule = LIKE
    rank: int | Rule = LIKE
    layout: str | Rule = LIKE

    def expected(self, spec: Spec, inputs: Sequence[Batch], accepts: Sequence[Input]) -> dict[str, int | str]:
        """The properties ("type", "rank", "layout") that follow from the declaration. Unknown ones are omitted."""
        layouts = [declared(accepts, k).layout(batch) for k, batch in enumerate(inputs)]
        found = {}
        for what, rule in (("type", self.type), ("rank", self.rank), ("layout", self.layout)):
            if not isinstance(rule, Rule):
                found[what] = rule
            elif rule.value is not None:
                value = rule.value(what, spec, inputs, layouts)
                if not isinstance(value, Rule):
                    found[what] = value
        return found

    def known_type(self, spec: Spec, dtypes: Sequence[DALIDataType | None]) -> DALIDataType | None:
        """The type for given types of the inputs. None: known only at run time."""
        rule = self.type
        if isinstance(rule, Rule):
            inputs: Any = [_Typed(dtype) for dtype in dtypes]
            known = rule.value and rule.value("type", spec, inputs, ())
            return known if isinstance(known, DALIDataType) else None
        return rule

    def describe(self) -> str:
        """For the docs."""
        if self == Output():
            return "type, dimensions and layout as input 0"
        return f"type: {_value_text(self.type)}; dimensions: {_value_text(self.rank)}; layout: {_value_text(self.layout)}"


def declared(declarations: Sequence[Any], position: int) -> Any:
    """The declaration of an input or output. The last entry describes all further outputs."""
    return declarations[min(position, len(declarations) - 1)]


# --- checks


def check_inputs(operator: str, accepts: Sequence[Input], inputs: Sequence[Batch]) -> None:
    """Raise InputError unless `accepts` declares the types, ranks and layouts of `inputs`."""
    for position, batch in enumerate(inputs):
        if accepts:
            refusal = declared(accepts, position).refusal(position, batch, inputs[0])
        else:
            refusal = f"The operator {operator} does not declare the inputs that it accepts (`Schema.accepts`), so every input is refused."
        if refusal:
            error = InputError(refusal)
            error.operator, error.input = operator, position
            raise error


def check_counts(inputs: Sequence[Batch], count: int) -> None:
    """Raise InputError unless all inputs have `count` samples."""
    for position, batch in enumerate(inputs):
        if len(batch.shapes) != count:
            text = f"Input 0 has {count}, input {position} {len(batch.shapes)}."
            error = InputError(f"All inputs must have the same number of samples. {text}")
            error.input = position
            raise error


def check_shapes(inputs: Sequence[Batch]) -> None:
    """Raise SampleError unless the samples of all inputs have the shapes of the first input's."""
    first = inputs[0].shapes
    for position, batch in enumerate(inputs):
        wrong: np.ndarray = (batch.shapes != first).any(axis=1)
        if wrong.any():
            i = int(wrong.argmax())
            shapes = [tuple(shapes[i].tolist()) for shapes in (first, batch.shapes)]
            raise SampleError(i, f"All inputs must have the same shape. Input 0 has {shapes[0]}, input {position} {shapes[1]}.")

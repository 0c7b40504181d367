"""The base of all classes: which parts of an input are changed, and when parameters are drawn.

An input is one value or several, nested in dicts, lists and tuples. A class draws its parameters once for the whole input. So a picture,
its boxes and its mask are cut in the same way. What has no kernel for a class passes through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import draws
from .arguments import fill_values, probability
from .conversion import channels_of
from .families import DEVICES, family_of
from .kinds import PIXELS, InputKind, Leaf, Leaves, described, kind_of, size_of

Params = dict[str, Any]
"""The draws and look-ups of one call, by name."""
_SIZED = (*PIXELS, InputKind.PICTURE, InputKind.MASK, InputKind.BOXES, InputKind.POINTS)


def flattened(value: object, into: list[Any]) -> list[Any]:
    """The leaves of nested dicts, lists and tuples, in order."""
    if isinstance(value, dict):
        for item in value.values():
            flattened(item, into)
    elif isinstance(value, (list, tuple)):
        for item in value:
            flattened(item, into)
    else:
        into.append(value)
    return into


def rebuilt(value: object, leaves: Any) -> Any:
    """A value of the same structure with other leaves, from an iterator."""
    if isinstance(value, dict):
        items = {key: rebuilt(item, leaves) for key, item in value.items()}
        if type(value) is dict:
            return items
        made = value.copy()  # OrderedDict, defaultdict
        made.update(items)
        return made
    if isinstance(value, (list, tuple)):
        parts = [rebuilt(item, leaves) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return next(leaves)


def needed(leaves: list[Any], takes: Callable[[object], bool]) -> list[bool]:
    """Which leaves are changed. A plain tensor is the picture only if no PIL picture, Image or Video is there, and only the first one."""
    kinds = [kind_of(leaf) for leaf in leaves]
    has_picture = any(kind in (InputKind.PICTURE, InputKind.IMAGE, InputKind.VIDEO) for kind in kinds)
    made, first = [], not has_picture
    for leaf, kind in zip(leaves, kinds, strict=True):
        if kind is InputKind.TENSOR:
            made.append(first and takes(leaf))
            first = False
        else:
            made.append(takes(leaf))
    return made


def checked_device(device: object) -> str:
    """A device's name. ValueError for others."""
    name = str(device)
    if name.partition(":")[0] not in DEVICES:
        raise ValueError(f"device is 'cpu' or 'gpu', got {device!r}")
    return name


class Transform:
    """The base of classes that change inputs. A class of your own has `transform`, and `make_params` if it draws.

    Args:
        device: where the work is done: "cpu" (tensors stay where they are) or "gpu".
    """

    random = False
    """Whether results depend on random numbers."""
    takes_arrays = False
    """Whether arrays of NumPy are inputs."""

    def __init__(self, device: object = "cpu"):
        self.device = checked_device(device)

    def check_inputs(self, flat_inputs: Leaves) -> None:
        """Raise an error for inputs that do not fit."""

    def make_params(self, flat_inputs: Leaves) -> Params:
        """Parameters for one call."""
        return {}

    def transform(self, inpt: Leaf, params: Params) -> object:
        """One leaf of an input, changed."""
        raise NotImplementedError

    def takes(self, leaf: object) -> bool:
        """Whether a leaf is given to `transform`."""
        return kind_of(leaf) is not None

    def call_kernel(self, function: Callable[..., Any], inpt: Any, *given: object, **arguments: Any) -> Any:
        """A function of ``v2.functional`` applied to a leaf; a leaf without a kernel is returned as it is."""
        kernel = family_of(function).kernel_for(inpt)
        if kernel is None:
            return inpt
        if self.device != "cpu":
            return function(inpt, *given, device=self.device, **arguments)
        return kernel(inpt, *given, **arguments)

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        kind = kind_of(whole)
        if kind is not None:
            leaves = [whole]
            self.check_inputs(leaves)
            return self.transform(whole, self.make_params(leaves)) if self.takes(whole) else whole
        leaves = flattened(whole, [])
        if not isinstance(whole, (dict, list, tuple)) and not self.takes(whole):
            return self.refused(whole)
        self.check_inputs(leaves)
        wanted = needed(leaves, self.takes)
        params = self.make_params([leaf for leaf, is_wanted in zip(leaves, wanted, strict=True) if is_wanted])
        made = [self.transform(leaf, params) if is_wanted else leaf for leaf, is_wanted in zip(leaves, wanted, strict=True)]
        return rebuilt(whole, iter(made))

    def forward(self, *inputs: Any) -> Any:
        """The same as a call."""
        return self(*inputs)

    def refused(self, value: object) -> object:
        """Raise the error for a value that the class does not take."""
        raise TypeError(f"{type(self).__name__} takes PIL pictures, tensors, tv_tensors, and dicts, lists and tuples of them; "
                        f"got {described(value)}")  # fmt: skip

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "device")]
        values = [(name, getattr(self, name)) for name in names if hasattr(self, name)]
        text = [f"{name}={value.value if hasattr(value, 'value') else value!r}" for name, value in values]
        if self.device != "cpu":
            text.append(f"device={self.device!r}")
        return ", ".join(text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class RandomTransform(Transform):
    """A transform that is applied with probability `p`."""

    random = True

    def __init__(self, p: float = 0.5, device: object = "cpu"):
        super().__init__(device)
        self.p = probability(p)

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        if kind_of(whole) is None and not isinstance(whole, (dict, list, tuple)):
            return self.refused(whole)
        if not draws.chance(self.p):
            return whole
        return super().__call__(*inputs)


def query_size(flat_inputs: Leaves) -> tuple[int, int]:
    """Height and width that all parts of an input share. TypeError if there is none, ValueError if they differ."""
    sizes = {size_of(leaf) for leaf in flat_inputs if kind_of(leaf) in _SIZED}
    if not sizes:
        raise TypeError("found no picture, video, mask, boxes or key points in the input")
    if len(sizes) > 1:
        raise ValueError(f"the parts of the input have different sizes: {', '.join(map(str, sorted(sizes)))}")
    return sizes.pop()


def query_channels(flat_inputs: Leaves) -> int:
    """Number of channels of the pictures of an input."""
    found = {channels_of(leaf) for leaf in flat_inputs if kind_of(leaf) in (InputKind.PICTURE, *PIXELS)}
    if not found:
        raise TypeError("found no picture or video in the input")
    if len(found) > 1:
        raise ValueError(f"the pictures of the input have different numbers of channels: {', '.join(map(str, sorted(found)))}")
    return found.pop()


def has_any(flat_inputs: Leaves, *kinds: InputKind) -> bool:
    """Whether a leaf is of one of some kinds."""
    return any(kind_of(leaf) in kinds for leaf in flat_inputs)


def fill_for(fill: object, inpt: object) -> Any:
    """The fill of a leaf: `fill` may be a dict from class (or "others") to values."""
    if not isinstance(fill, dict):
        return fill
    for cls in type(inpt).__mro__:
        if cls in fill:
            return fill[cls]
    return fill.get("others", 0)


def checked_fill(fill: object) -> Any:
    """A number, numbers, None, or a dict of these by class. TypeError for others."""
    if isinstance(fill, dict):
        for key, value in fill.items():
            if key != "others" and not isinstance(key, type):
                raise TypeError(f"fill has classes and 'others' as keys, got {key!r}")
            fill_values(value)
        return dict(fill)
    return fill_values(fill)

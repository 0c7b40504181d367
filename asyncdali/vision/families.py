"""Functions with one kernel for each kind of input.

A family is declared by a function with the public signature and documentation. `kernel(family, kinds)` gives it the code for some kinds.
The code gets a PIL picture, or a plain tensor without gradient; for boxes and key points it gets the plain tensor and its `CanvasFrame`.
A family gives results the class of the input.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch

from .kinds import OF_TV_TENSORS, RASTERS, InputKind, described, kind_of, picture_like, raw, tensor_of, tv_tensors, wrapped

Parameters = ParamSpec("Parameters")
Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Result = TypeVar("Result")

FIRST_NAMES = ("inpt", "image", "img", "pic", "input_data")
"""Keywords of the input: torchvision's and DALI's."""
DEVICES = ("cpu", "gpu", "cuda")


class CanvasFrame(NamedTuple):
    """The unit of boxes and key points."""

    canvas: tuple[int, int]
    """Height and width of the picture."""
    format: object = None
    """torchvision's BoundingBoxFormat; None for key points."""
    clamping: Any = "soft"


class Family:
    """The kernels of one function."""

    def __init__(self, name: str, most: int, device: bool):
        self.name = name
        self.kernels: dict[InputKind, Callable[..., Any]] = {}
        self.of_classes: dict[type, Callable[..., Any]] = {}
        """Kernels of users, by the class of their tensors."""
        self.most = most
        """Positional arguments behind the input."""
        self.device = device
        """Whether one more is the device."""

    def kernel_for(self, inpt: object) -> Callable[..., Any] | None:
        """The code for an input."""
        if self.of_classes:
            own = self.of_classes.get(type(inpt))
            if own is not None:
                return own
        kind = kind_of(inpt)
        return None if kind is None else self.kernels.get(kind)

    def refuse(self, inpt: object) -> TypeError:
        """The error for an input without a kernel."""
        taken = ", ".join(kind.value for kind in self.kernels)
        return TypeError(f"{self.name} takes {taken}; got {described(inpt)}")


FAMILIES: dict[str, Family] = {}
"""All families by their names."""
_of_function: dict[object, Family] = {}


def family_of(function: object) -> Family:
    """The family of a public function. TypeError for other functions."""
    found = _of_function.get(function)
    if found is None:
        raise TypeError(f"{function!r} is no function of torchvision's v2 that takes kernels")
    return found


def family(declaration: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The public function of a family."""
    parameters = list(inspect.signature(declaration).parameters.values())
    has_device = parameters[-1].name == "device"
    made = FAMILIES[declaration.__name__] = Family(declaration.__name__, len(parameters) - 1 - has_device, has_device)

    @functools.wraps(declaration)
    def call(*given: object, device: Any = None, **arguments: Any) -> Any:
        if not given:
            given = (_named_input(made, arguments),)
        elif len(given) > made.most + 1 and made.device and device is None:
            *given, device = given  # type: ignore[assignment]
        inpt = given[0]
        kernel = made.kernel_for(inpt)
        if kernel is None:
            raise made.refuse(inpt)
        if device is not None and device != "cpu":
            return on_device(call, given, arguments, device)
        return kernel(*given, **arguments)

    _of_function[call] = made
    return call


def _named_input(family: Family, arguments: dict[str, object]) -> object:
    for name in FIRST_NAMES:
        if name in arguments:
            return arguments.pop(name)
    raise TypeError(f"{family.name} needs an input")


def on_device(call: Callable[..., Any], given: Sequence[Any], arguments: dict[str, Any], device: object) -> object:
    """A call whose input is moved to a device first. A PIL picture comes back as a picture."""
    wanted = torch_device(device)
    inpt = given[0]
    if wanted.type == "cpu":
        return call(*given, **arguments)
    if kind_of(inpt) is InputKind.PICTURE:
        made = call(tensor_of(inpt).to(wanted), *given[1:], **arguments)
        return picture_like(made.cpu(), inpt) if isinstance(made, torch.Tensor) else made
    return call(wrapped(raw(inpt).to(wanted), inpt), *given[1:], **arguments)


def torch_device(device: object) -> torch.device:
    """The device of torch that "cpu", "gpu" or a torch.device names. ValueError for other names, RuntimeError if there is no GPU."""
    if isinstance(device, torch.device):
        found = device
    else:
        name = str(device)
        if name.partition(":")[0] not in DEVICES:
            raise ValueError(f"device is 'cpu' or 'gpu', got {device!r}")
        found = torch.device(name.replace("gpu", "cuda"))
    if found.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"device {str(device)!r}: torch sees no GPU here; give device='cpu', or install a build of torch with CUDA")
    return found


def kernel(function: Callable[..., object], *kinds: InputKind) -> Callable[[Kernel], Kernel]:
    """Give a family its code for some kinds of inputs."""
    made = family_of(function)

    def register(code: Kernel) -> Kernel:
        for kind in kinds:
            made.kernels[kind] = _adapted(made, kind, code)
        return code

    return register


def _adapted(family: Family, kind: InputKind, code: Callable[..., object]) -> Callable[..., object]:
    if kind is InputKind.PICTURE:
        return code
    if kind is InputKind.TENSOR:

        def of_tensor(inpt: torch.Tensor, *given: object, **arguments: object) -> object:
            if inpt.ndim < 3:
                raise TypeError(f"{family.name}: a tensor has channels, height and width as its last dimensions, got {described(inpt)}")
            return code(raw(inpt), *given, **arguments)

        return of_tensor
    if kind in RASTERS:

        def of_raster(inpt: torch.Tensor, *given: object, **arguments: object) -> object:
            made = code(raw(inpt), *given, **arguments)
            if isinstance(made, (tuple, list)):
                return type(made)(wrapped(item, inpt) for item in made)
            return wrapped(made, inpt)

        return of_raster

    def of_frame(inpt: Any, *given: object, **arguments: Any) -> Any:
        frame = CanvasFrame(tuple(inpt.canvas_size), getattr(inpt, "format", None), getattr(inpt, "clamping_mode", "soft"))
        made = code(raw(inpt), frame, *given, **arguments)
        if isinstance(made, tuple):
            tensor, canvas = made
            return wrapped(tensor, inpt, canvas_size=canvas)
        return wrapped(made, inpt)

    return of_frame


def register_kernel(functional: object, tv_tensor_cls: type) -> Callable[[Kernel], Kernel]:
    """Register a kernel for a class of tv_tensors of your own, as torchvision's decorator of this name does.

    Args:
        functional: a function of this module, or its name.
        tv_tensor_cls: the class; the kernel gets its instances as they are.
    """
    made = FAMILIES.get(functional) if isinstance(functional, str) else _of_function.get(functional)
    if made is None:
        raise ValueError(f"{functional!r} is no function of this module that takes kernels")
    if kind_of_class(tv_tensor_cls) not in (None, InputKind.OTHER):
        raise ValueError(f"{tv_tensor_cls.__name__} has its kernels; register kernels for classes of your own")
    owner = made

    def register(code: Kernel) -> Kernel:
        owner.of_classes[tv_tensor_cls] = code
        return code

    return register


def kind_of_class(cls: type) -> InputKind | None:
    """The kind of torchvision's own classes, not of classes derived from them."""
    module = tv_tensors()
    return next((kind for name, kind in OF_TV_TENSORS.items() if module is not None and cls is getattr(module, name, None)), None)


_SUFFIXES = {"_image": InputKind.IMAGE, "_video": InputKind.VIDEO, "_mask": InputKind.MASK}


def variant(name: str) -> Callable[..., Any] | None:
    """torchvision's function for plain tensors of one kind, "resize_image" or "crop_mask"; None: there is none."""
    for suffix, kind in _SUFFIXES.items():
        owner = FAMILIES.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if owner is not None and kind in owner.kernels:
            return owner.kernels[kind]
    return None

"""Classes that apply others: Compose and its relatives."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import PIL.Image
import torch

from .. import dynamic as ndd
from ..pipeline import Pipeline
from . import draws, resizing
from .arguments import is_integer, is_sequence, probability
from .conversion import pil_to_tensor
from .converting import Normalize, PILToTensor, ToImage, ToPILImage, ToTensor
from .enums import InterpolationMode
from .geometry import CenterCrop, Resize
from .kinds import InputKind, described, kind_of, raw
from .transform import Transform, checked_device, flattened

Step = Callable[..., Any]


def _listed(given: object, named: dict[str, Any], what: str) -> list[Any]:
    """The transforms of a container, which torchvision calls `transforms` and DALI `op_list`. TypeError if one cannot be called."""
    if "transforms" in named:
        given = named.pop("transforms")
    if named:
        raise TypeError(f"{what} has no argument {next(iter(named))!r}")
    if not is_sequence(given) and not isinstance(given, torch.nn.ModuleList):
        raise TypeError(f"{what} takes a list of transforms, got {given!r}")
    for item in given:
        if not callable(item):
            raise TypeError(f"{what}: {item!r} is no transform: it cannot be called")
    return list(given)


def is_random(step: object) -> bool:
    """Whether the results of a transform depend on random numbers. Those of unknown functions may."""
    if isinstance(step, Container):
        return step.random or any(map(is_random, step.transforms))
    return step.random if isinstance(step, Transform) else True


class Container(Transform):
    """The base of classes that have others."""

    def __init__(self, transforms: list[Any]):
        super().__init__()
        self.transforms = transforms

    @property
    def takes_arrays(self) -> bool:  # type: ignore[override]
        """Whether a transform takes arrays of NumPy, or may."""
        return any(not isinstance(step, Transform) or step.takes_arrays for step in self.transforms)

    def __repr__(self) -> str:
        lines = [f"    {line}" for step in self.transforms for line in repr(step).split("\n")]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class _Fused:
    """Resize and CenterCrop of a PIL picture: only the pixels that remain are computed."""

    def __init__(self, first: Resize, second: CenterCrop):
        self.first, self.second = first, second
        self._windowed = None
        if first.interpolation is not InterpolationMode.NEAREST:
            size = first.size, first.max_size
            self._windowed = resizing.WindowedResize(size, second.size, first.interpolation, bool(first.antialias))

    def __call__(self, picture: PIL.Image.Image) -> PIL.Image.Image:
        if self._windowed is not None and picture.mode in ("L", "RGB"):
            region = self._windowed.region(picture.height, picture.width)
            if region is not None:
                return self._windowed(picture, region)
        made: Any = self.second(self.first(picture))
        return made  # type: ignore[no-any-return]


class _Plan:
    """The steps for one kind of input."""

    def __init__(self, transforms: list[Any], kind: InputKind):
        self.transforms = list(transforms)
        self.steps: list[Step] = []
        ends_as_tensor = self._ends_as_tensor(transforms)
        picture = kind is InputKind.PICTURE
        for step in transforms:
            if isinstance(step, Normalize) and picture and ends_as_tensor:
                self.steps.append(pil_to_tensor)
                picture = False
            if isinstance(step, (PILToTensor, ToImage, ToTensor)):
                picture = False
            elif isinstance(step, ToPILImage):
                picture = True
            before = self.steps[-1] if self.steps else None
            on_cpu = isinstance(step, Transform) and isinstance(before, Transform) and (step.device, before.device) == ("cpu", "cpu")
            if picture and on_cpu and type(step) is CenterCrop and type(before) is Resize:
                self.steps[-1] = _Fused(before, step)
                continue
            self.steps.append(step)
        self.per_sample = any(map(is_random, transforms))

    @staticmethod
    def _ends_as_tensor(transforms: list[Any]) -> bool:
        marks = [step for step in transforms if isinstance(step, (PILToTensor, ToPILImage, ToImage, ToTensor))]
        return bool(marks) and not isinstance(marks[-1], ToPILImage)

    def run(self, value: object) -> object:
        for step in self.steps:
            value = step(value)
        return value


@functools.cache
def _pipeline_arguments() -> set[str]:
    return set(inspect.signature(Pipeline.__init__).parameters) - {"self"}


class Compose(Container):
    """Apply several transforms, one after the other.

    One plan is made for each kind of input, and again when the list of transforms has changed. An error changes nothing. The object can be
    copied, pickled, and used in worker processes and threads.

    Of a plain tensor [..., channels, height, width] with more than three dimensions each picture gets random parameters of its own.

    Args:
        op_list: the transforms: those of this package, functions, ``nn.Module``, or another Compose. torchvision's name is `transforms`.
        batch_size: taken for DALI's sake: tensors may hold any number of pictures.
        num_threads: processor threads for this object; None: those of the process (``asyncdali.dynamic.set_num_threads``).
        seed: the seed of all draws; None or -1: torch's default generator.
        pipeline_arguments: names of arguments of Pipeline are taken for DALI's sake; there is no pipeline that they could change.

    Raises:
        TypeError: if `op_list` is no list, a transform cannot be called, or an argument is unknown; in a call, if the input has nothing
            to transform.
    """

    def __init__(
        self, op_list: object = None, batch_size: int = 16, num_threads: int | None = None, seed: int | None = None,
        **pipeline_arguments: object,
    ):  # fmt: skip
        named = {name: pipeline_arguments.pop(name) for name in ("transforms",) if name in pipeline_arguments}
        unknown = set(pipeline_arguments) - _pipeline_arguments() if pipeline_arguments else set()
        if unknown:
            raise TypeError(f"Compose has no argument {sorted(unknown)[0]!r}")
        for name, value in (("batch_size", batch_size), ("num_threads", num_threads), ("seed", seed)):
            if value is not None and not is_integer(value):
                raise TypeError(f"{name} is an integer, got {value!r}")
        super().__init__(_listed(op_list, named, "Compose"))
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads is positive, got {num_threads}")
        self.batch_size, self.num_threads, self.seed = batch_size, num_threads, seed
        self._stream = None if seed in (None, -1) else draws.SeededStream(seed)
        self._plans: dict[InputKind, _Plan] = {}
        self._pool: Any = None

    @property
    def op_list(self) -> list[Any]:
        """The transforms, by DALI's name."""
        return self.transforms

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}, "_pool": None}

    def __call__(self, *inputs: object) -> object:
        if not inputs:
            raise TypeError("Compose needs an input")
        whole = inputs[0] if len(inputs) == 1 else inputs
        source = None if self._stream is None else self._stream.generator()
        if source is None and self.num_threads is None:
            return self._applied(whole, len(inputs) > 1)
        with draws.drawing_from(source):
            if self.num_threads is None:
                return self._applied(whole, len(inputs) > 1)
            if self._pool is None:
                self._pool = ndd.ThreadPool(self.num_threads)
            with ndd.EvalContext(thread_pool=self._pool):
                return self._applied(whole, len(inputs) > 1)

    def _applied(self, whole: Any, several: bool) -> Any:
        kind = kind_of(whole)
        if kind is None:
            return self._nested(whole, several)
        plan = self._plans.get(kind)
        if plan is None or plan.transforms != self.transforms:
            plan = self._plans[kind] = _Plan(self.transforms, kind)
        if kind is InputKind.PICTURE:
            made = plan.run(whole)
            return made.copy() if made is whole else made
        if kind is InputKind.TENSOR:
            if whole.ndim < 3:
                raise TypeError(f"a tensor has channels, height and width as its last dimensions, got {described(whole)}")
            whole = raw(whole)
            if whole.ndim > 3 and plan.per_sample and whole.shape[:-3].numel():
                return _stacked([plan.run(sample) for sample in whole.reshape(-1, *whole.shape[-3:])], tuple(whole.shape[:-3]))
        return _fresh(plan.run(whole), [whole])

    def _nested(self, whole: Any, several: bool) -> Any:
        if not isinstance(whole, (dict, list, tuple)) and not (isinstance(whole, np.ndarray) and self.takes_arrays):
            raise TypeError(f"Compose takes PIL pictures, tensors, tv_tensors, and dicts, lists and tuples of them; got {described(whole)}")
        leaves = flattened(whole, [])
        if not self.takes_arrays and not any(kind_of(leaf) is not None for leaf in leaves):
            raise TypeError("Compose found no picture, tensor or tv_tensor in the input")
        made = whole
        for step in self.transforms:
            made = step(*made) if several and type(made) is tuple else step(made)
        return made


def _stacked(made: list[Any], leading: tuple[int, ...]) -> Any:
    """Results of single pictures as one tensor, or as a list if they are pictures or differ in shape."""
    if not all(isinstance(item, torch.Tensor) for item in made) or len({item.shape for item in made}) > 1:
        return made
    whole = torch.stack(made)
    return whole.reshape(*leading, *whole.shape[1:])


def _fresh(made: Any, inputs: list[Any]) -> Any:
    """A result in memory of its own."""
    if isinstance(made, torch.Tensor):
        sources = [item.untyped_storage().data_ptr() for item in inputs if isinstance(item, torch.Tensor)]
        if made.untyped_storage().data_ptr() in sources and made.numel():
            return made.clone()
        return made if made.is_contiguous() or type(made) is not torch.Tensor else made.contiguous()
    return made.copy() if isinstance(made, PIL.Image.Image) and any(made is item for item in inputs) else made


class RandomApply(Container):
    """Apply all of some transforms with probability `p`, or none."""

    random = True

    def __init__(self, op_list: object = None, p: float = 0.5, device: object = "cpu", **named: object):
        super().__init__(_listed(op_list, named, "RandomApply"))
        self.p = probability(p)
        self.device = checked_device(device)

    def __call__(self, *inputs: object) -> object:
        made = inputs if len(inputs) > 1 else inputs[0]
        if not draws.chance(self.p):
            return made
        for step in self.transforms:
            made = step(made)
        return made


class RandomChoice(Container):
    """Apply one of some transforms, chosen with probabilities `p` (by default all alike)."""

    random = True

    def __init__(self, transforms: Sequence[Callable[..., object]], p: Sequence[float] | None = None):
        super().__init__(_listed(transforms, {}, "RandomChoice"))
        weights = [1.0] * len(self.transforms) if p is None else list(p)
        if len(weights) != len(self.transforms):
            raise ValueError(f"p has {len(weights)} numbers for {len(self.transforms)} transforms")
        self.p = [weight / sum(weights) for weight in weights]

    def __call__(self, *inputs: object) -> object:
        chosen = int(torch.multinomial(torch.tensor(self.p), 1, generator=draws.generator()))
        return self.transforms[chosen](*inputs)


class RandomOrder(Container):
    """Apply all of some transforms in random order."""

    random = True

    def __init__(self, transforms: Sequence[Callable[..., object]]):
        super().__init__(_listed(transforms, {}, "RandomOrder"))

    def __call__(self, *inputs: object) -> object:
        made = inputs if len(inputs) > 1 else inputs[0]
        for k in draws.order(len(self.transforms)):
            made = self.transforms[k](made)
        return made

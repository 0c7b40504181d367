"""Classes that change what an input is: pictures, tensors, element types, normalization, plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import PIL.Image
import torch

from . import conversion
from .kinds import PIXELS, InputKind, Leaf, Leaves, described, kind_of, raw, wrapped
from .transform import Params, Transform, flattened, rebuilt


class PILToTensor(Transform):
    """PIL pictures as tensors [channels, height, width] of their element type. Tensors stay."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return conversion.pil_to_tensor(inpt) if kind_of(inpt) is InputKind.PICTURE else inpt


class ToPureTensor(PILToTensor):
    """tv_tensors as tensors without a class, and PIL pictures as tensors."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return conversion.pil_to_tensor(inpt) if kind_of(inpt) is InputKind.PICTURE else raw(inpt)


class _TakesArrays(Transform):
    """The base of classes that take arrays of NumPy."""

    takes_arrays = True

    def takes(self, leaf: object) -> bool:
        return isinstance(leaf, np.ndarray) or kind_of(leaf) in (InputKind.PICTURE, *PIXELS)


class ToImage(_TakesArrays):
    """PIL pictures, arrays and tensors as torchvision's Image."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return inpt if kind_of(inpt) is InputKind.VIDEO else conversion.to_image(inpt)


class ToTensor(_TakesArrays):
    """PIL pictures and arrays as tensors; bytes become floats from 0 to 1. Tensors stay."""

    def transform(self, inpt: Leaf, params: Params) -> object:
        return inpt if isinstance(inpt, torch.Tensor) else conversion.to_tensor(inpt)


class ToPILImage(_TakesArrays):
    """Tensors and arrays as PIL pictures of a mode; a tensor of several pictures [..., channels, height, width] as a list of pictures."""

    def __init__(self, mode: str | None = None, device: object = "cpu"):
        super().__init__("cpu" if mode in ("cpu", "gpu") else device)
        self.mode = None if mode in ("cpu", "gpu") else mode

    def transform(self, inpt: Leaf, params: Params) -> object:
        if isinstance(inpt, PIL.Image.Image):
            return inpt
        if isinstance(inpt, torch.Tensor) and inpt.ndim > 3:
            return [conversion.to_pil_image(part, self.mode) for part in raw(inpt).reshape(-1, *inpt.shape[-3:])]
        return conversion.to_pil_image(inpt, self.mode)


class ToDtype(Transform):
    """Another element type.

    Args:
        dtype: the type of pictures and videos; or a dict from class (or "others") to a type or None.
        scale: whether values of pictures are scaled, so that black and white stay black and white.
        device: where the work is done.
    """

    def __init__(self, dtype: object, scale: bool = False, device: object = "cpu"):
        super().__init__(device)
        if not isinstance(dtype, (dict, torch.dtype)):
            raise ValueError(f"dtype is a torch.dtype, or a dict from class to torch.dtype, got {dtype!r}")
        if isinstance(dtype, dict) and "others" not in dtype and torch.Tensor in dtype and len(dtype) > 1:
            raise ValueError("dtype has tv_tensors and torch.Tensor: give 'others' for what is in neither")
        self.dtype, self.scale = dtype, bool(scale)

    def transform(self, inpt: Leaf, params: Params) -> object:
        wanted = self.dtype
        if isinstance(wanted, dict):
            if type(inpt) in wanted:
                wanted = wanted[type(inpt)]
            elif "others" in wanted:
                wanted = wanted["others"]
            else:
                raise ValueError(f"dtype has no type for {described(inpt)}; give 'others', which may be None")
        elif kind_of(inpt) not in PIXELS:
            return inpt
        return inpt if wanted is None else self.call_kernel(conversion.to_dtype, inpt, wanted, self.scale)


class ConvertImageDtype(Transform):
    """Another element type for tensors and tv_tensors. Values of pictures are scaled, so that black and white stay black and white."""

    def __init__(self, dtype: torch.dtype = torch.float32, device: object = "cpu"):
        super().__init__(device)
        self.dtype = dtype

    def takes(self, leaf: object) -> bool:
        return isinstance(leaf, torch.Tensor)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(conversion.to_dtype, inpt, self.dtype, True)


class Normalize(Transform):
    """Subtract `mean` and divide by `std`, one number for each channel or one for all."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False, device: object = "cpu"):
        super().__init__(device)
        self.mean, self.std = conversion.checked_statistics(mean, std, inplace)
        self.inplace = False

    def transform(self, inpt: Leaf, params: Params) -> object:
        if kind_of(inpt) is InputKind.PICTURE:
            raise TypeError("Normalize makes floats, which PIL pictures do not hold; put ToImage() or PILToTensor() before it")
        return self.call_kernel(conversion.normalize, inpt, self.mean, self.std)


class UniformTemporalSubsample(Transform):
    """Frames of a video at equal distances."""

    def __init__(self, num_samples: int, device: object = "cpu"):
        super().__init__(device)
        self.num_samples = num_samples

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) in (InputKind.TENSOR, InputKind.VIDEO)

    def transform(self, inpt: Leaf, params: Params) -> object:
        return self.call_kernel(conversion.uniform_temporal_subsample, inpt, self.num_samples)


class LinearTransformation(Transform):
    """Subtract a vector from the flattened tensor and multiply it by a square matrix, for whitening for example."""

    def __init__(self, transformation_matrix: torch.Tensor, mean_vector: torch.Tensor, device: object = "cpu"):
        super().__init__(device)
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(f"transformation_matrix is square, got {tuple(transformation_matrix.shape)}")
        if mean_vector.shape[0] != rows:
            raise ValueError(f"mean_vector has {rows} values, got {mean_vector.shape[0]}")
        if transformation_matrix.dtype != mean_vector.dtype:
            raise ValueError(f"matrix and vector have one type, got {transformation_matrix.dtype} and {mean_vector.dtype}")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def takes(self, leaf: object) -> bool:
        return kind_of(leaf) in PIXELS

    def refused(self, value: object) -> object:
        raise TypeError(f"LinearTransformation takes tensors, got {described(value)}")

    def check_inputs(self, flat_inputs: Leaves) -> None:
        if any(kind_of(leaf) is InputKind.PICTURE for leaf in flat_inputs):
            raise TypeError("LinearTransformation takes tensors, not PIL pictures")

    def transform(self, inpt: Leaf, params: Params) -> object:
        values = raw(inpt)
        count = values.shape[-3] * values.shape[-2] * values.shape[-1]
        if count != self.transformation_matrix.shape[0]:
            raise ValueError(f"a picture of {count} values does not fit a matrix of {tuple(self.transformation_matrix.shape)}")
        flat = values.reshape(-1, count).to(self.mean_vector.dtype) - self.mean_vector.to(values.device)
        made = (flat @ self.transformation_matrix.to(values.device)).reshape(values.shape)
        return wrapped(made, inpt) if made.dtype == values.dtype else made


class Identity(Transform):
    """The input as it is."""

    def __call__(self, *inputs: object) -> object:
        return inputs[0] if len(inputs) == 1 else inputs


class Lambda(Transform):
    """A function of your own, for leaves of some classes (by default all)."""

    random = True  # the function may draw
    takes_arrays = True

    def __init__(self, lambd: Callable[..., object], *types: type):
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Lambda needs a function, got {lambd!r}")
        self.lambd = lambd
        self.types = types or (object,)

    def __call__(self, *inputs: object) -> object:
        whole = inputs[0] if len(inputs) == 1 else inputs
        leaves = flattened(whole, [])
        return rebuilt(whole, iter([self.lambd(leaf) if isinstance(leaf, self.types) else leaf for leaf in leaves]))

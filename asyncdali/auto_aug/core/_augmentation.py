"""An augmentation is a function of the graph with a range of magnitudes. This module also has magnitude bins with signs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import fn
from ...data_node import DataNode
from ...graph.choices import row
from ...graph.rewrite.convert import call
from ...types import DALIDataType, constant_array
from ._args import MissingArgException, missing_of, named_parameters, positional_count

UNCHANGED: Any = type("Unchanged", (), {"__repr__": lambda self: "UNCHANGED"})()
"""Keeps an argument of :meth:`Augmentation.augmentation` at its value."""


def as_array(magnitude: object) -> np.ndarray:
    """The default of `mag_to_param`: the parameter is the magnitude as a 0-d array."""
    return np.array(magnitude)


class SignedBin:
    """A magnitude bin with a random sign, see :func:`signed_bin`. ``signed[k]`` is the signed bin of stage k.

    Attributes: ``bin`` (int or node), ``random_sign`` (0 or 1: node or int), ``signed_magnitude_idx`` (2 * bin + random_sign).
    """

    def __init__(self, bin: Any, random_sign: Any, signed_magnitude_idx: Any = None, stage: int | None = None):
        self._bin = bin
        self._stage = stage
        self.random_sign = random_sign
        # This node is made here and not at its first use. The first use may be in a branch, and such a node cannot be used outside.
        self.signed_magnitude_idx = bin * 2 + random_sign if signed_magnitude_idx is None else signed_magnitude_idx

    @property
    def bin(self) -> Any:
        return _of_stage(self._bin, self._stage)

    def __getitem__(self, stage: int) -> SignedBin:
        return SignedBin(self._bin, _of_stage(self.random_sign, stage), _of_stage(self.signed_magnitude_idx, stage), stage)


def _of_stage(value: object, stage: int | None) -> object:
    return value if stage is None or not isinstance(value, DataNode) else value[stage]


def signed_bin(
    magnitude_bin: DataNode | int, random_sign: DataNode | int | None = None, seed: int | None = None, shape: Any = None
) -> SignedBin:
    """A magnitude bin for augmentations that negate their magnitudes at random. With sign 1 the magnitude is negated.

    - magnitude_bin: the bin, int or INT32 node (scalar, or of `shape`).
    - random_sign: 0 or 1, int or node. By default drawn: ``random.uniform(values=[0, 1], dtype=INT32, seed=seed, shape=shape)``.

    Raises ValueError if `random_sign` is given together with `seed` or `shape`, TypeError for a bin that is not an integer.
    """
    if not _is_bin(magnitude_bin):
        raise TypeError(f"magnitude_bin must be an int or a DataNode of integers, got {magnitude_bin!r}")
    if random_sign is None:
        random_sign = fn.random.uniform(values=[0, 1], dtype=DALIDataType.INT32, seed=seed, shape=shape)
    elif seed is not None or shape is not None:
        raise ValueError("`random_sign` cannot be combined with `seed` or `shape`, which configure a random draw; leave out one of them")
    return SignedBin(magnitude_bin, random_sign)


def _is_bin(value: object) -> bool:
    return isinstance(value, (DataNode, int, np.integer))


class Augmentation:
    """A function of the graph that is applied with a magnitude. The decorator ``augmentation`` makes such objects.

    A call applies the function: ``augmentation(data, magnitude_bin=..., num_magnitude_bins=..., **named)``. The magnitude is element
    `magnitude_bin` of `num_magnitude_bins` equally spaced numbers of `mag_range`. `magnitude_bin` is an int, an INT32 node, or a result of
    :func:`signed_bin`. The function gets the data, the magnitude as a parameter (a node; None without `mag_range`), and the named arguments
    for which it has parameters.

    Raises MissingArgException for a missing required argument, ValueError and TypeError for invalid bins.
    """

    def __init__(
        self, op: Callable[..., object], mag_range: object = None, mag_to_param: Callable[..., object] | None = None,
        randomly_negate: bool | None = None, param_device: str | None = None, name: str | None = None,
    ):  # fmt: skip
        self._op = op
        self._given: dict[str, Any] = {
            "mag_range": mag_range, "mag_to_param": mag_to_param, "randomly_negate": randomly_negate, "param_device": param_device,
            "name": name,
        }  # fmt: skip
        count = positional_count(op)
        if count < 2:
            raise TypeError(
                f"{self!r}: the function takes {count} positional argument{'s' * (count != 1)}; an augmentation takes at least two, the "
                "data and the parameter"
            )

    @property
    def op(self) -> Callable[..., Any]:
        """The function."""
        return self._op

    @property
    def mag_range(self) -> Any:
        """(lowest, highest) magnitude, an array of magnitudes, or None."""
        return self._given["mag_range"]

    @property
    def mag_to_param(self) -> Callable[..., Any]:
        """The function that makes the parameter of a magnitude: number, list of numbers or array."""
        given = self._given["mag_to_param"]
        return as_array if given is None else given

    @property
    def randomly_negate(self) -> bool:
        """Whether the magnitude is negated for random samples."""
        return bool(self._given["randomly_negate"])

    @property
    def param_device(self) -> str:
        """The device of the parameter: "cpu", "gpu", or "auto" for the device of the data."""
        given = self._given["param_device"]
        return "cpu" if given is None else given

    @property
    def name(self) -> str:
        """The name given to the decorator, or the name of the function."""
        given = self._given["name"]
        return getattr(self._op, "__name__", type(self._op).__name__) if given is None else given

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self._given.items() if value is not None)
        return f"Augmentation({self._op!r}{given})"

    def augmentation(
        self, mag_range: object = UNCHANGED, randomly_negate: object = UNCHANGED, mag_to_param: object = UNCHANGED,
        param_device: object = UNCHANGED,
        name: object = UNCHANGED, augmentation_cls: type[Augmentation] | None = None,
    ) -> Augmentation:  # fmt: skip
        """A copy with other settings. A setting that is not given stays as it is; None resets a setting to its default."""
        changes = {
            "mag_range": mag_range, "randomly_negate": randomly_negate, "mag_to_param": mag_to_param, "param_device": param_device,
            "name": name,
        }  # fmt: skip
        settings = {**self._given, **{key: value for key, value in changes.items() if value is not UNCHANGED}}
        return (augmentation_cls or type(self))(self._op, **settings)

    def __call__(self, data: DataNode, *, magnitude_bin: object = None, num_magnitude_bins: int | None = None, **kwargs: object) -> Any:
        missing = missing_of(self._op, kwargs)
        if missing:
            raise MissingArgException(
                f"the augmentation `{self.name}` requires the named argument{'s' * (len(missing) > 1)} {', '.join(missing)}", self, missing
            )
        read = {parameter.name for parameter in named_parameters(self._op)}
        parameter = None if self.mag_range is None else self._parameter(data, magnitude_bin, num_magnitude_bins)
        return call(self._op)(data, parameter, **{name: value for name, value in kwargs.items() if name in read})

    # --- the parameter

    def _parameter(self, data: DataNode, magnitude_bin: Any, count: int | None) -> DataNode:
        if magnitude_bin is None:
            raise ValueError(f"{self.name} has a mag_range {self.mag_range!r}: the call needs magnitude_bin to pick a magnitude from it")
        if not isinstance(magnitude_bin, SignedBin) and not _is_bin(magnitude_bin):
            raise TypeError(f"{self.name}: magnitude_bin must be an int, a DataNode of integers or a signed_bin, got {magnitude_bin!r}")
        magnitudes = self._magnitudes(count)
        device = data.device if self.param_device == "auto" else self.param_device
        if not self.randomly_negate:
            chosen = magnitude_bin.bin if isinstance(magnitude_bin, SignedBin) else magnitude_bin
            if isinstance(chosen, DataNode):
                return row(*self._table(magnitudes), chosen, device)
            table, dtype = self._table([magnitudes[self._checked(chosen, len(magnitudes))]])
            return row(table, dtype, 0, device)
        if not isinstance(magnitude_bin, SignedBin):
            warnings.warn(
                f"{self.name} negates magnitudes at random but got a magnitude_bin without a sign, so a sign of its own is drawn; give "
                "several augmentations one `signed_bin(...)` to draw a single sign for all of them",
                Warning, stacklevel=3,
            )  # fmt: skip
            magnitude_bin = signed_bin(magnitude_bin)
        if isinstance(magnitude_bin.bin, DataNode):
            return row(*self._table(_with_negatives(magnitudes)), magnitude_bin.signed_magnitude_idx, device)
        chosen = magnitudes[self._checked(magnitude_bin.bin, len(magnitudes))]
        return row(*self._table(_with_negatives([chosen])), magnitude_bin.random_sign, device)

    def _checked(self, bin: int, count: int) -> int:
        if not -count <= bin < count:
            raise IndexError(f"{self.name}: magnitude_bin {bin} is out of range: there are {count} magnitude bins")
        return int(bin)

    def _magnitudes(self, count: int | None) -> Any:
        """The magnitude of each bin."""
        if isinstance(self.mag_range, np.ndarray):
            if count is not None and count != len(self.mag_range):
                raise ValueError(f"{self.name}: mag_range is an array of {len(self.mag_range)} magnitudes, num_magnitude_bins is {count}")
            return self.mag_range
        if count is None:
            raise ValueError(f"{self.name}: the call needs num_magnitude_bins, the number of magnitudes between the ends of mag_range")
        if not isinstance(self.mag_range, (tuple, list)) or len(self.mag_range) != 2:
            raise ValueError(
                f"{self.name}: mag_range must be a pair (lowest, highest) or an array with all magnitudes, got {self.mag_range!r}"
            )
        lowest, highest = self.mag_range
        return np.linspace(lowest, highest, count, dtype=np.float32)

    def _table(self, magnitudes: Any) -> tuple[np.ndarray, DALIDataType]:
        """The parameters of magnitudes, one per row, and their type."""
        rows = [self._constant(self.mag_to_param(magnitude)) for magnitude in magnitudes]
        kinds = {(values.shape, dtype.name) for values, dtype in rows}
        if len(kinds) > 1:
            raise ValueError(
                f"{self.name}: mag_to_param must give parameters of one shape and type for all magnitudes, got "
                f"{' and '.join(f'{name} of shape {shape}' for shape, name in sorted(kinds))}"
            )
        return np.stack([values for values, _ in rows]), rows[0][1]

    def _constant(self, parameter: object) -> tuple[np.ndarray, DALIDataType]:
        if isinstance(parameter, DataNode):
            raise TypeError(f"{self.name}: mag_to_param returned a DataNode; it is called while the graph is built and must return numbers")
        try:
            return constant_array(np.asarray(parameter))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.name}: mag_to_param must return a number, list of numbers or array, got {parameter!r}") from error


def _with_negatives(magnitudes: Any) -> list[Any]:
    return [signed for magnitude in magnitudes for signed in (magnitude, -magnitude)]

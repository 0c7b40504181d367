"""The decorator that turns functions of the graph into augmentations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ._augmentation import Augmentation


@overload
def augmentation(
    function: None = None, *, mag_range: object = None, randomly_negate: bool | None = None, mag_to_param: Callable[..., Any] | None = None,
    param_device: str | None = None, name: str | None = None, augmentation_cls: type[Augmentation] | None = None,
) -> Callable[[Callable[..., Any]], Augmentation]: ...  # fmt: skip
@overload
def augmentation(
    function: Callable[..., object], *, mag_range: object = None, randomly_negate: bool | None = None,
    mag_to_param: Callable[..., object] | None = None, param_device: str | None = None, name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Augmentation: ...  # fmt: skip
def augmentation(
    function: Callable[..., Any] | None = None, *, mag_range: object = None, randomly_negate: bool | None = None,
    mag_to_param: Callable[..., object] | None = None, param_device: str | None = None, name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Augmentation | Callable[[Callable[..., Any]], Augmentation]:  # fmt: skip
    """Turn ``function(data, parameter, **named)``, a function of the graph, into an augmentation.

    - mag_range: (lowest, highest) magnitude, divided into equally spaced bins; or an array with the magnitude of each bin.
      Without it the function gets None as its parameter.
    - randomly_negate: whether the magnitude is negated for random samples (where the bin has a sign, see ``signed_bin``).
    - mag_to_param: function from a magnitude (numpy scalar) to the parameter, called while the graph is defined. Default: the magnitude.
    - param_device: device of the parameter: "cpu" (default), "gpu", or "auto" for the device of the data.
    - name: by default the name of the function.
    - augmentation_cls: the class of the result, by default ``Augmentation``.

    Example::

        @augmentation(mag_range=(0, 30), randomly_negate=True)
        def rotate(data, angle, fill_value=128):
            return fn.rotate(data, angle=angle, fill_value=fill_value, keep_size=True)

    Raises TypeError for an augmentation, for an object that is not a function, and for a function with fewer than two positional arguments.
    """

    def decorate(target: Callable[..., object]) -> Augmentation:
        if isinstance(target, Augmentation):
            raise TypeError(
                f"{target!r} is an augmentation already: call its method `augmentation` for a copy with other settings, or decorate "
                "its `op`"
            )
        if not callable(target):
            raise TypeError(f"@augmentation decorates a function, got {target!r}")
        return (augmentation_cls or Augmentation)(
            target, mag_range=mag_range, randomly_negate=randomly_negate, mag_to_param=mag_to_param, param_device=param_device, name=name
        )

    return decorate if function is None else decorate(function)

"""The decorator that makes functions of the graph augmentations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._augmentation import Augmentation


def augmentation(
    function: Callable[..., Any] | None = None, *, mag_range: Any = None, randomly_negate: bool | None = None,
    mag_to_param: Callable[..., Any] | None = None, param_device: str | None = None, name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Any:  # fmt: skip
    """Makes an augmentation of ``function(data, parameter, **named)``, a function of the graph.

    - mag_range: (lowest, highest) magnitude, from which bins are taken at equal distances; or an array with the magnitude of each bin.
      Without it the function gets None as its parameter.
    - randomly_negate: whether the magnitude is negated for random samples (where the bin has a sign, see ``signed_bin``).
    - mag_to_param: makes the parameter of a magnitude (numpy scalar); called while the graph is defined. By default the magnitude itself.
    - param_device: where the parameter is: "cpu" (default), "gpu", or "auto" for the device of the data.
    - name: by default that of the function.
    - augmentation_cls: the class of the result, by default ``Augmentation``.

    Example::

        @augmentation(mag_range=(0, 30), randomly_negate=True)
        def rotate(data, angle, fill_value=128):
            return fn.rotate(data, angle=angle, fill_value=fill_value, keep_size=True)

    Raises TypeError for what is no function or takes fewer than two positional arguments, and for an augmentation.
    """

    def decorate(target: Callable[..., Any]) -> Augmentation:
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

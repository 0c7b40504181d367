"""The parts of automatic augmentations: the decorator ``augmentation``, ``Policy``, ``select`` and ``signed_bin``.

    _args.py          Checks of keyword arguments
    _augmentation.py  An augmentation is a function of the graph with a range of magnitudes
    _select.py        Select one operation per sample by number (samples are split and merged in `graph/choices.py`)
    decorator.py      The decorator that turns functions of the graph into augmentations
    policy.py         Policies: lists of sub-policies

May import the same rooms as `auto_aug`.
"""

from ._augmentation import Augmentation as _Augmentation  # noqa: F401, the class is known by this name
from ._augmentation import signed_bin as signed_bin
from ._select import select as select
from .decorator import augmentation as augmentation
from .policy import Policy as Policy

__all__ = ["augmentation", "signed_bin", "select", "Policy"]

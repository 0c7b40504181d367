"""Policies: lists of sub-policies. One sub-policy is chosen per sample."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._augmentation import Augmentation

Operation = tuple[Augmentation, Any, Any]
"""An augmentation, its probability, its magnitude bin or None."""


class Policy:
    """A named list of sub-policies for :func:`asyncdali.auto_aug.auto_augment.apply_auto_augment`.

    - name: used in messages.
    - num_magnitude_bins: number of magnitudes of every augmentation.
    - sub_policies: each a list of triples (augmentation, probability, magnitude bin or None) that are applied in a row.

    Attributes are these three arguments, and ``augmentations``: dict by name, sorted. If different augmentations have the same name, all
    are
    renamed: "0__rotate", "1__shear_x" ... Raises TypeError and ValueError for invalid arguments.
    """

    def __init__(self, name: str, num_magnitude_bins: int, sub_policies: Sequence[Sequence[Sequence[object]]]):
        self.name = name
        if not isinstance(num_magnitude_bins, (int, np.integer)) or num_magnitude_bins < 1:
            raise ValueError(f"policy {name!r}: num_magnitude_bins must be a positive integer, got {num_magnitude_bins!r}")
        self.num_magnitude_bins = num_magnitude_bins
        if not isinstance(sub_policies, (list, tuple)):
            raise TypeError(f"policy {name!r}: sub_policies must be a list or tuple of sub-policies, got {type(sub_policies).__name__}")
        checked = [self._checked(sub_policy) for sub_policy in sub_policies]
        self.sub_policies: tuple[tuple[Operation, ...], ...] = _with_unique_names(checked)

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """All augmentations of the policy by name, sorted."""
        found = {augmentation.name: augmentation for sub_policy in self.sub_policies for augmentation, _, _ in sub_policy}
        return {name: found[name] for name in sorted(found)}

    def __repr__(self) -> str:
        subs = ",".join(
            "\n\t[" + ", ".join(f"({a.name!r}, {probability!r}, {bin!r})" for a, probability, bin in sub) + "]" for sub in self.sub_policies
        )
        named = ",".join(f"\n\t{name!r}: {augmentation!r}" for name, augmentation in self.augmentations.items())
        return (
            f"Policy(name={self.name!r}, num_magnitude_bins={self.num_magnitude_bins}, sub_policies=[{subs}], augmentations={{{named}}})"
        )

    def _checked(self, sub_policy: object) -> tuple[Operation, ...]:
        if not isinstance(sub_policy, (list, tuple)):
            raise TypeError(f"policy {self.name!r}: a sub-policy must be a list or tuple of triples, got {sub_policy!r}")
        return tuple(self._checked_operation(operation) for operation in sub_policy)

    def _checked_operation(self, operation: object) -> Operation:
        if not isinstance(operation, (list, tuple)) or len(operation) != 3:
            raise ValueError(
                f"policy {self.name!r}: each operation must be a triple (augmentation, probability, magnitude bin), got {operation!r}"
            )
        augmentation, probability, bin = operation
        if not isinstance(augmentation, Augmentation):
            raise TypeError(f"policy {self.name!r}: {augmentation!r} is not an augmentation; did you forget the decorator @augmentation?")
        where = f"policy {self.name!r}, augmentation `{augmentation.name}`"
        if not isinstance(probability, (int, float, np.number)) or not 0 <= probability <= 1:
            raise ValueError(f"{where}: the probability must be a number in [0, 1], got {probability!r}")
        if probability == 0:
            warnings.warn(f"{where}: the probability is 0 in a sub-policy, so it is never applied there", UserWarning, stacklevel=5)
        if bin is None:
            if augmentation.mag_range is not None:
                raise ValueError(f"{where}: an augmentation with a mag_range needs a magnitude bin, got None")
            return augmentation, probability, None
        if not isinstance(bin, (int, np.integer)) or not 0 <= bin < self.num_magnitude_bins:
            raise ValueError(f"{where}: the magnitude bin must be an integer in [0, {self.num_magnitude_bins - 1}], got {bin!r}")
        if augmentation.mag_range is None:
            warnings.warn(
                f"{where}: the magnitude bin {bin} is ignored, for the augmentation has no mag_range; give None instead",
                UserWarning, stacklevel=5,
            )  # fmt: skip
        return augmentation, probability, bin


def _with_unique_names(sub_policies: Sequence[tuple[Operation, ...]]) -> tuple[tuple[Operation, ...], ...]:
    """The sub-policies after renaming: different augmentations have different names."""
    different: list[Augmentation] = []
    for sub_policy in sub_policies:
        for augmentation, _, _ in sub_policy:
            if not any(augmentation is known for known in different):
                different.append(augmentation)
    if len({augmentation.name for augmentation in different}) == len(different):
        return tuple(sub_policies)
    digits = len(str(len(different) - 1))
    renamed = {id(one): one.augmentation(name=f"{k:0{digits}}__{one.name}") for k, one in enumerate(different)}
    return tuple(tuple((renamed[id(one)], probability, bin) for one, probability, bin in sub) for sub in sub_policies)

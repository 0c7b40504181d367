"""Axis names of tensors."""

from __future__ import annotations


class TensorLayout:
    """Axis names of a tensor, one character each; compares equal to the plain string. Raises TypeError for anything but a str."""

    __slots__ = ("_axes",)

    def __init__(self, layout: str):
        if not isinstance(layout, (str, TensorLayout)):
            raise TypeError(f"a layout is a string with one character per dimension, got {type(layout).__name__}")
        self._axes = str(layout)

    def __str__(self) -> str:
        return self._axes

    def __repr__(self) -> str:
        return f"asyncdali.types.TensorLayout({self._axes!r})"

    def __len__(self) -> int:
        return len(self._axes)

    def __eq__(self, other: object) -> bool:
        return self._axes == str(other) if isinstance(other, (str, TensorLayout)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._axes)

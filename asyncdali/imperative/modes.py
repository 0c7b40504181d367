"""When calls are computed: modes of evaluation, per thread."""

from __future__ import annotations

import enum
from typing import Any

from ..system.entered import Entered, Leave

_modes = Entered()


def entered_modes() -> list[Any]:
    """The entries of the calling thread, also those that are over. It is one list for the life of the thread."""
    return _modes.entries


class _ModeNames(enum.EnumMeta):
    def __getattr__(cls, name: str) -> Any:
        found = None if name.startswith("_") else cls._member_map_.get(name)
        if found is None:
            raise AttributeError(f"EvalMode has no member {name!r}: the modes are {', '.join(cls.__members__)}", name=name, obj=cls)
        return found


class EvalMode(enum.Enum, metaclass=_ModeNames):
    """When the work of a call is done. A member is a context manager that sets the mode of the calling thread.

    deferred   when a result is read (its values, or its shape)
    eager      in the call (the default). Long work of several samples is shared with worker threads
    sync_cpu   in the call
    sync_full  in the call, which also waits for the GPU
    """

    deferred = 1
    eager = 2
    sync_cpu = 3
    sync_full = 4
    default = eager

    @classmethod
    def _missing_(cls, value: object) -> EvalMode:
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        raise ValueError(f"{value!r} is no mode: the modes are {', '.join(cls.__members__)}")

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, EvalMode) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.value <= other.value if isinstance(other, EvalMode) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.value > other.value if isinstance(other, EvalMode) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.value >= other.value if isinstance(other, EvalMode) else NotImplemented

    @staticmethod
    def current() -> EvalMode:
        """The calling thread's mode."""
        return (_modes.innermost() or EvalMode.eager) if _modes.entries else EvalMode.eager

    def __enter__(self) -> EvalMode:
        _modes.enter(self)
        return self

    __exit__ = Leave(_modes)

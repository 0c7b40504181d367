"""Names of DALI that asyncdali does not have. Using one raises an error that says what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

NO_LIBRARIES = (
    "there are no C++ operators in asyncdali, so libraries of them cannot be loaded. Write the operator as fn.python_function, as "
    "fn.experimental.numba_function (compiled), or as an operator of your own (docs/own_operators.md)"
)


def refuser(module: str, absent: Mapping[str, str]) -> Callable[[str], object]:
    """A module's ``__getattr__``: for names in `absent` an AttributeError with advice, for others an ordinary one."""

    def __getattr__(name: str) -> Any:
        if name in absent:
            raise AttributeError(f"{module}.{name} is not in asyncdali: {absent[name]}", name=name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return __getattr__

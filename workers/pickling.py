from __future__ import annotations
from typing import Any


def pickle_by_value(function: Any) -> Any:
    raise NotImplementedError

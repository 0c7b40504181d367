"""Pickling of functions by value, for worker processes."""

from __future__ import annotations

import io

import cloudpickle

from ..messages.absent import refuser

__all__ = ["DaliCallbackPickler", "dummy_lambda"]


class DaliCallbackPickler(cloudpickle.Pickler):
    """A pickler that stores functions of the main module, lambdas and inner functions by value. ``DaliCallbackPickler.dumps(object)``."""

    @staticmethod
    def dumps(obj: object, protocol: int | None = None) -> bytes:
        """The bytes of an object; ``pickle.loads`` reads them."""
        buffer = io.BytesIO()
        DaliCallbackPickler(buffer, protocol=protocol).dump(obj)
        return buffer.getvalue()


def dummy_lambda() -> None:
    """An empty function."""


_CLOUDPICKLE = "functions are pickled with cloudpickle; use asyncdali.pickling.pickle_by_value or reducers.DaliCallbackPickler"

__getattr__ = refuser("asyncdali.reducers", dict.fromkeys((
    "cell_reducer", "cell_unpickle", "function_by_value_reducer", "function_unpickle", "get_global_references_from_nested_code",
    "module_reducer", "module_unpickle", "set_cell_state", "set_funcion_state",
), _CLOUDPICKLE))  # fmt: skip

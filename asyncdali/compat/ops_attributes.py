"""Attributes of DALI's ``ops`` objects that begin with an underscore: programs read them, so ours have those that mean something here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

_IMPLEMENTATION = "it belongs to DALI's own implementation. Use `schema`, `spec`, `device`, `preserve` or `schema_name`"
_WRAPPER = "functions are called without a wrapper. Use `function` for the function that was given"
ABSENT = {
    **dict.fromkeys(("_definition_frame_end", "_generated", "_impl_module", "_internal_schema_name"), _IMPLEMENTATION),
    **dict.fromkeys(
        ("_cupy_stream_wrapper", "_function_wrapper_cpu", "_function_wrapper_dlpack", "_function_wrapper_gpu", "check_outputs",
         "function_wrapper_batch", "function_wrapper_per_sample"),
        _WRAPPER,
    ),
    **dict.fromkeys(("_callback", "_source_desc"), "keep the `source` that was given; the pipeline enters it when the node is made"),
    "_args_doc": "the documentation is in `__doc__`",
    "current_stream": "in a function of the device \"gpu\" the current stream of CuPy, or of torch, is the pipeline's",
}  # fmt: skip
"""Attributes that our objects lack, and their replacements."""


class DaliAttributes:
    """Base of ``ops`` objects. `_given` holds the arguments of the constructor; `_called` those of the last call."""

    _given: dict[str, Any]
    _called: Mapping[str, Any] = {}
    _named_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that are attributes under their own name."""
    _underscored_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that are attributes behind an underscore."""

    @property
    def _name(self) -> str | None:
        """The name given to the operator instance."""
        return self._given.get("name")

    @property
    def _device(self) -> str:
        return str(getattr(self, "device"))  # noqa: B009

    @property
    def _preserve(self) -> bool:
        return bool(getattr(self, "preserve"))  # noqa: B009

    @property
    def _spec(self) -> object:
        return getattr(self, "spec")  # noqa: B009

    @property
    def _original_schema(self) -> object:
        return getattr(self, "schema")  # noqa: B009

    @property
    def _init_args(self) -> dict[str, object]:
        """Arguments of the constructor, except for the name and the device."""
        return {key: value for key, value in self._given.items() if key not in ("name", "device") and value is not None}

    @property
    def _call_args(self) -> dict[str, object]:
        """Arguments of the last call that are constants of the operator."""
        return {key: value for key, value in self._called.items() if key != "name"}

    @classmethod
    def _operator_name(cls) -> str:
        """Where the class is found: "asyncdali.ops.random.Uniform"."""
        return f"{cls.__module__}.{cls.__qualname__}"

    def __getattr__(self, name: str) -> Any:
        cls = type(self)
        if name in ABSENT:
            raise AttributeError(f"{cls._operator_name()}.{name} is not in asyncdali: {ABSENT[name]}.", name=name, obj=self)
        if name in cls._named_arguments:
            return self._given.get(name)
        if name[:1] == "_" and name[1:] in cls._underscored_arguments:
            return self._given.get(name[1:])
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}", name=name, obj=self)

"""The names of ``asyncdali.dynamic`` and its submodules. They are found at their first use, so that importing dynamic mode is cheap.

The import makes the submodules; a name imports the machinery and the operators' declarations.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

SUBMODULES = {
    **dict.fromkeys(("decoders", "noise", "reductions", "segmentation", "transforms"), "Operators {}.*"),
    "checkpoint": "Checkpoints: the states of readers and random generators",
    "experimental": "Operators experimental.*",
    "experimental.decoders": "Operators experimental.decoders.*",
    "experimental.readers": "Readers: classes whose objects are iterated, epoch by epoch",
    "io": "Operators io.*",
    "io.file": "Operators io.file.*",
    "math": """Mathematical functions on Tensors, Batches and numbers: element by element, with the types of pipelines' arithmetic.

Integers give float32 (`abs`, `min`, `max`, `clamp` and `pow` keep integers); float64 stays.""",
    "random": "Random numbers: the generator :class:`RNG`, and operators that draw from it (``ndd.random.uniform(range=[0, 1], rng=rng)``)",
    "readers": "Readers: classes whose objects are iterated, epoch by epoch",
}
"""Submodules that have no file, and what they say about themselves."""
_TYPES = "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
_BY_HAND: dict[str, dict[str, str]] = {
    "": {
        "EvalContext": "contexts", "ThreadPool": "contexts", "get_num_threads": "contexts", "set_num_threads": "contexts",
        "Device": "devices", "DeviceLike": "devices", "device": "devices", **dict.fromkeys(_TYPES.split(), "dtypes"),
        "bool": "dtypes.bool_", "DType": "dtypes", "DataType": "dtypes", "ImageType": "dtypes", "InterpType": "dtypes", "dtype": "dtypes",
        "type_id": "dtypes", "EvalMode": "modes", "ExternalSource": "sources", "Stream": "streams", "get_current_stream": "streams",
        "get_default_stream": "streams", "set_current_stream": "streams", "set_default_stream": "streams", "stream": "streams",
        "Batch": "values", "Tensor": "values", "as_batch": "values", "as_tensor": "values", "batch": "values", "tensor": "values",
    },
    "checkpoint": {"Checkpoint": "checkpoints", "current": "contexts.current_checkpoint"},
    "random": {"RNG": "rng", "get_default_rng": "rng", "set_seed": "rng"},
}  # fmt: skip
"""By submodule: names that are no operators, and the module that has them; after a dot the name there."""


class _Surface:
    """All names: by submodule the functions that make the values."""

    def __init__(self) -> None:
        from ..operators import load_registry
        from . import decoding, functions, mathematics, readers, spellings

        schemas = [operator.schema for operator in load_registry().values()]
        self.makers: dict[str, dict[str, Callable[[], object]]] = {path: {} for path in ("", *SUBMODULES)}
        for path, names in _BY_HAND.items():
            self.makers[path] |= {name: functools.partial(_named, home, name) for name, home in names.items()}
        self.makers["math"] |= {name: functools.partial(getattr, mathematics, name) for name in mathematics.NAMES}
        for made in (functions.operator_makers(schemas), readers.reader_makers(schemas), decoding.decoding_makers()):
            for full, maker in made.items():
                path, _, last = full.rpartition(".")
                self.makers[path][last] = functools.partial(maker, f"asyncdali.dynamic.{path}" if path else "asyncdali.dynamic")
        self._old = functions.old_names(schemas)
        spellings.names = lambda: self.makers

    def missing(self, path: str, name: str) -> str:
        """The end of the error for a name that does not exist."""
        from .spellings import missing_name

        return missing_name(path, name, self._old)


def _named(home: str, name: str) -> object:
    module, _, own = home.partition(".")
    return getattr(importlib.import_module(f"asyncdali.imperative.{module}"), own or name)


@functools.cache
def _surface() -> _Surface:
    return _Surface()


class _Finder:
    """``__getattr__`` and ``__dir__`` of a module."""

    def __init__(self, module: ModuleType, path: str, others: Mapping[str, ModuleType]):
        self._module, self._path, self._others = module, path, others

    def value(self, name: str) -> object:
        """The value of a name, which the module keeps."""
        if name == "__all__":
            return self.names()
        if not name.startswith("__"):
            maker = _surface().makers[self._path].get(name)
            if maker is not None:
                return vars(self._module).setdefault(name, maker())  # of two threads both get the same
        ending = "" if name.startswith("__") else _surface().missing(self._path, name)
        raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}{ending}", name=name, obj=self._module)

    def names(self) -> list[str]:
        """All public names."""
        return sorted({*_surface().makers[self._path], *self._others})

    def directory(self) -> list[str]:
        """Public names, and the module's own."""
        return sorted({*self.names(), *(name for name in vars(self._module) if name.startswith("__"))})


def install(root: ModuleType, files: Mapping[str, ModuleType]) -> None:
    """Give `root` its submodules and names. `files`: submodules that have files."""
    modules = {"": root}
    children: dict[str, dict[str, ModuleType]] = {path: {} for path in ("", *SUBMODULES)}
    children[""].update(files)
    for path, doc in SUBMODULES.items():
        full = f"{root.__name__}.{path}"
        made = modules[path] = sys.modules[full] = ModuleType(full, doc.format(path))
        parent, _, last = path.rpartition(".")
        setattr(modules[parent], last, made)
        children[parent][last] = made
    for path, module in modules.items():
        finder = _Finder(module, path, children[path])
        module.__getattr__, module.__dir__ = finder.value, finder.directory  # type: ignore[method-assign]

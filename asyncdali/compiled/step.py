"""Decorators that turn Python functions into cached machine code that runs without the interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from ..messages.notices import warn
from . import kinds, progress, waiting
from .kernel_keys import kernel_weight

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_OPTIONS}


class Helper:
    """A function that kernels call. Numba's dispatcher is made when the first kernel that calls it is compiled.

    Dispatchers are expensive: those of a training pipeline would take 0.1 s of a processor in every process, with all kernels in the cache.
    """

    __slots__ = ("_dispatcher", "py_func", "targetoptions")

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self.py_func = function
        self.targetoptions = options
        """As given to Numba, which reads ``inline`` here."""
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher."""
        if self._dispatcher is None:
            from numba import njit

            from .compiler import HelperCompiler

            options = self.targetoptions if "inline" in self.targetoptions else {**self.targetoptions, "pipeline_class": HelperCompiler}
            self._dispatcher = njit(**options)(self.py_func)
        return self._dispatcher

    @property
    def _numba_type_(self) -> object:
        """Numba asks for the type of a global value in this way."""
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.py_func.__qualname__} is compiled into kernels and has no code of its own: compile a kernel that calls it")


def _helpers(**options: object) -> Callable[[Callable[..., object]], Helper]:
    """The decorator for helpers with these options."""
    return lambda function: Helper(function, {**_HELPER, **options})


inlined = _helpers()
"""A helper called by steps. It is compiled into its callers."""

fused = _helpers(forceinline=True)
"""Like :data:`inlined`, for short helpers of hot loops that LLVM would call: the values of their arrays then stay in registers."""

contracted = _helpers(fastmath={"contract"})
"""Like :data:`inlined`, but a multiplication and an addition may become one fused operation."""


def pasted(function: Callable[..., object]) -> Helper:
    """Like :data:`inlined`, for short helpers: Numba copies the code into each caller before it looks up types."""
    return Helper(function, {"inline": "always"})


# Numba numbers the functions it compiles and puts the number into their symbols, from 1 in every process. So code cached by two processes
# would share symbols, and a process that loads both would call helpers of the wrong one. Therefore numbers start at a random value.
_numbers = itertools.count(secrets.randbits(62))


@contextlib.contextmanager
def _own_symbols() -> Iterator[None]:
    """Within the block, symbols of compiled functions are unique to this process."""
    from numba.core.bytecode import FunctionIdentity

    theirs = FunctionIdentity._unique_ids
    FunctionIdentity._unique_ids = _numbers
    try:
        yield
    finally:
        FunctionIdentity._unique_ids = theirs


class _CFunction(NamedTuple):
    """A C function. `keep`: Numba's object that owns the code; None: it was loaded from the cache."""

    address: int
    keep: Any


def _c_function(function: Any, signature: Any, variant: tuple[Any, ...] | None = None) -> _CFunction:
    """A C function, loaded from the cache or compiled. NotCompiled: not now (:mod:`.waiting`)."""
    from .cache import entry

    stored = entry(function, str(signature), variant)
    if stored is None:
        return _compiled(function, signature)
    address = stored.load()
    if address:
        return _CFunction(address, None)
    with stored.claimed():
        address = stored.load()  # another process may have compiled it meanwhile
        if address:
            return _CFunction(address, None)
        made = _compiled(function, signature)
        from .machine_code import machine_code_of

        try:
            stored.save(machine_code_of(made.keep))
        except ValueError as error:
            warn(f"{function.__qualname__} is compiled again in every process: {error}", RuntimeWarning)
        return made


def _compiled(function: Any, signature: Any) -> _CFunction:
    """A C function, compiled by Numba."""
    from numba.core.ccallback import CFunc

    from .compiler import KernelCompiler

    types = signature.of_numba
    made: Any = CFunc(function, (types.args, types.return_type), {}, _OPTIONS, KernelCompiler)
    with _own_symbols():
        made.compile()
    return _CFunction(made.address, made)


class Made(NamedTuple):
    """A kernel that this process has compiled, in `seconds`. `expected`: during a ``build()``, which compiles all kernels that it knows."""

    name: str
    seconds: float
    expected: bool


history: list[Made] = []
"""The kernels that this process has compiled, in order."""


class Compiled:
    """A C function: ``address`` for other compiled code. Calling it from Python releases the GIL, unless it is `brief`.

    It is compiled (or loaded from the cache) when ``address`` is first read or at the first call, so a pipeline pays only for the functions
    that it uses. Operators do this in their constructor, because compilation belongs to ``build()`` and not to a worker thread.
    """

    __slots__ = ("_address", "_call", "_count", "_function", "_keep", "_variant", "brief", "held")

    def __init__(
        self, function: Callable[..., object], argument_count: int, variant: tuple[object, ...] | None = None, brief: bool = False
    ):
        self._function = function
        self.brief = brief
        self._variant = variant
        self._count = argument_count
        self._address = 0
        self._call: Callable[..., int] = self._first_call
        self.held: Callable[..., int] = self._first_call
        """Call it with the GIL held, for a call that takes microseconds this time."""
        self._keep = None

    @property
    def address(self) -> int:
        """Address of the machine code. NotCompiled in a helper (:mod:`.waiting`) while another process compiles it."""
        if not self._address:
            with waiting.needed():
                self.compile()
            if not self._address and waiting.policy() is not waiting.CompilePolicy.LIST:
                raise waiting.NotCompiled
        return self._address

    @property
    def entry(self) -> Callable[..., int]:
        """The C function, compiled: for callers that call it several times per batch, without the time of a method."""
        if not self.address:
            raise waiting.NotCompiled
        return self._call

    @property
    def held_entry(self) -> Callable[..., int]:
        """As :attr:`entry`, of :attr:`held`."""
        if not self.address:
            raise waiting.NotCompiled
        return self.held

    @property
    def name(self) -> str:
        """Module and function, for people."""
        return f"{self._function.__module__.rpartition('.')[2]}.{self._function.__qualname__.rpartition('.')[2]}"

    @property
    def weight(self) -> int:
        """About proportional to the time that compiling it takes."""
        return kernel_weight(self._function)

    @property
    def ready(self) -> bool:
        """Whether it is compiled."""
        return self._address != 0

    @property
    def _signature(self) -> object:
        return kinds.int64(*[kinds.int64] * self._count)

    def compile(self) -> None:
        """Compile it, or load it from the cache, unless that is done. Raises Numba's errors.

        In a block of :func:`collecting` a kernel that is not in the cache is only noted.
        """
        with _compiling, _without_garbage_collection():
            if self._address:
                return
            began = time.perf_counter()
            try:
                keep = _c_function(self._function, self._signature, self._variant)
            except waiting.NotCompiled:
                _missing.note(self)
                return
            if keep.keep is not None:
                history.append(Made(self.name, time.perf_counter() - began, progress.is_expected()))
            arguments = [ctypes.c_int64] * self._count
            self.held = ctypes.PYFUNCTYPE(ctypes.c_int64, *arguments)(keep.address)
            self._call = self.held if self.brief else ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(keep.address)
            self._keep = keep.keep
            self._address = keep.address

    def _first_call(self, *args: int) -> int:
        if not self.address:  # reading it compiles the kernel
            raise waiting.NotCompiled
        return self._call(*args)

    def __call__(self, *args: int) -> int:
        return self._call(*args)


class _Missing(threading.local):
    """The kernels that a block of :func:`collecting` has noted."""

    def __init__(self) -> None:
        self.kernels: dict[int, Compiled] | None = None

    def note(self, kernel: Compiled) -> None:
        if self.kernels is not None:
            self.kernels[id(kernel)] = kernel


_missing = _Missing()


@contextlib.contextmanager
def collecting(policy: waiting.CompilePolicy = waiting.CompilePolicy.COLLECT) -> Iterator[dict[int, Compiled]]:
    """Within the block, this thread notes kernels that it does not compile because of `policy`. Yields them, by ``id``.

    Reading the address of such a kernel compiles it all the same."""
    before, _missing.kernels = _missing.kernels, {}
    try:
        with waiting.using(policy):
            yield _missing.kernels
    finally:
        _missing.kernels = before


_compiling = threading.RLock()


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disables garbage collection. The compiler makes millions of objects and keeps them, so collections cost 7 % and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compiled(argument_count: int, brief: bool = False) -> Callable[[Callable[..., object]], Compiled]:
    """Decorator: make ``f(int64, ...) -> int64`` a :class:`Compiled` (cached on disk in the user's cache folder).

    `brief`: it takes microseconds and never waits. Reacquiring the GIL from a busy thread would take longer.
    """

    def decorate(function: Callable[..., object]) -> Compiled:
        return Compiled(function, argument_count, None, brief)

    return decorate


def step_variant(*key: Any) -> Callable[[Callable[..., object]], Compiled]:
    """Decorator for a step made by a factory (a closure over other compiled functions). `key` names the variant in the disk cache."""

    def decorate(function: Callable[..., object]) -> Compiled:
        return Compiled(function, 3, key)

    return decorate


def compile_all(module: ModuleType) -> None:
    """Compile every function of a kernel module now."""
    for value in vars(module).values():
        if isinstance(value, Compiled):
            value.compile()


step = compiled(3)
"""Decorator for ``step(context, sample, thread) -> status``; see the package docstring."""


def callback(function: Callable[..., object]) -> _CFunction:
    """Compile ``f(int64) -> void`` as a callback of a C library: an object with an ``address``, to be kept while it may be called."""
    try:
        with waiting.needed():
            return _c_function(function, kinds.void(kinds.int64))
    except waiting.NotCompiled:
        if waiting.policy() is waiting.CompilePolicy.LIST:
            return _CFunction(0, None)
        raise

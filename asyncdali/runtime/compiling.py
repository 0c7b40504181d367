"""The kernels that a pipeline needs are compiled in ``build()``, by all usable processors, before the first batch.

Compiling takes seconds, and the compiler is a Python program that uses one processor. So ``build()`` first makes all operators and only
collects the kernels that are missing in the cache on disk. The second missing kernel starts helpers: processes that make the same
operators. Each begins at another operator. A kernel is compiled by the process that claims it first (``compiled/kernel_store.py``), and
the others load it from the cache. The claims hold for all processes of the machine: eight ranks that start together compile each kernel
once.

Helpers only save time. If a helper fails, this process compiles what is missing. If this process dies, the kernel (parent-death signal)
ends the helpers: during a compilation of several seconds a helper would not notice a closed pipe.

``ASYNCDALI_COMPILE_AHEAD=0`` turns the helpers off.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ..graph.plan import PlannedOperator
from ..operators.base import Environment, Operator, Spec, Trait
from ..system.processes import interpreter, processors, python_command

if TYPE_CHECKING:
    from ..compiled.step import Compiled
    from .counting.statistics import KernelStatistics

log = logging.getLogger("asyncdali")

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>
_PROGRAM = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # the parent died before the signal was asked for
from asyncdali.runtime import compiling
compiling.serve(sys.stdin.buffer)
"""
"""A helper; its argument is this process's id. The death signal is set first, because importing Numba takes a second."""
_FIRST_MISSES = 2  # start helpers at the second missing kernel: one kernel is not worth a process
_MOST_HELPERS = 7
"""A pipeline rarely has more than 30 kernels, and each helper needs a second of a processor before it compiles."""
_PIPE = 60_000  # bytes that a pipe takes before its reader runs


class Compilation:
    """The compilation of one ``build()``, as a context: it has helpers, and shows its progress. `operators`: of the pipeline's plan."""

    def __init__(self, operators: Sequence[PlannedOperator], helpers: Helpers | None = None):
        from ..compiled import cache, progress

        self.compiled = 0
        """Number of kernels that were missing from the cache and were compiled, here or by helpers."""
        self.seconds = 0.0
        """Time that the compilation of these kernels took."""
        self._missed = cache.missed
        self._helpers = helpers or Helpers(operators)
        self._open = contextlib.ExitStack()
        self._progress = progress.shown(cache.folder_name())

    def __enter__(self) -> Compilation:
        self._shown = self._open.enter_context(self._progress)
        self._missed.append(self._helpers.miss)
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self._missed.remove(self._helpers.miss)
            self._open.close()
            self._helpers.close()

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """A context in which operators are made. When it ends, all kernels that they missed are compiled."""
        from ..compiled.step import collecting

        with collecting() as missing:
            yield
        self.compile(list(missing.values()))

    def compile(self, kernels: Sequence[Compiled]) -> None:
        """Compile kernels, together with other processes that need some of them. Raises Numba's errors."""
        from ..compiled import waiting
        from ..compiled.step import collecting

        # The kernels that take longest come first. Otherwise one of them could start last, while the other processors have no work.
        left = sorted(self._missing(kernels), key=lambda kernel: -kernel.weight)
        if not left:
            return
        began = time.perf_counter()
        self.compiled += len(left)
        self._shown.expect(len(left))
        with self._shown.counted_by_caller():
            while left:
                before = len(left)
                with collecting(waiting.CompilePolicy.SHARE):
                    for kernel in left:
                        kernel.compile()
                        if kernel.ready:
                            self._shown.step()
                left = [kernel for kernel in left if not kernel.ready]
                if len(left) == before:  # other processes compile all of them: wait for one
                    left[0].compile()
                    self._shown.step()
                    left = left[1:]
        self.seconds += time.perf_counter() - began

    def counted(self) -> Callable[[], KernelStatistics]:
        """Returns a function that counts these kernels, and those that this process has compiled since."""
        from ..compiled.step import history

        compiled, seconds, until = self.compiled, self.seconds, len(history)

        def count() -> KernelStatistics:
            from .counting.statistics import KernelStatistics  # many data classes: 10 ms of a processor

            late = [kernel for kernel in history[until:] if not kernel.expected]
            return KernelStatistics(compiled, seconds, tuple(kernel.name for kernel in late), sum(kernel.seconds for kernel in late))

        return count

    @staticmethod
    def _missing(kernels: Sequence[Compiled]) -> list[Compiled]:
        """Load kernels from the cache. Returns those that are not there."""
        from ..compiled.step import collecting

        with collecting() as missing:
            for kernel in kernels:
                kernel.compile()
        return list(missing.values())


class Helpers:
    """The helpers of one ``build()``. The second missing kernel starts them."""

    def __init__(self, operators: Sequence[PlannedOperator]):
        self._operators = operators
        self._misses = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def wanted(self) -> int:
        """The number of helpers for which there are work and processors."""
        if os.environ.get("ASYNCDALI_COMPILE_AHEAD", "1") == "0" or interpreter() is None:
            return 0
        return max(0, min(self._parts - 1, len(processors()) - 1, _MOST_HELPERS))

    @property
    def _parts(self) -> int:
        """The number of pieces of work that helpers can divide."""
        return len(self._operators)

    def miss(self) -> None:
        """Count a kernel that is not in the cache; the second one starts the helpers."""
        self._misses += 1
        if self._misses == _FIRST_MISSES:
            for _ in range(self.wanted):
                with contextlib.suppress(OSError), uninterrupted():  # compile here if no process can be started
                    self._start()

    def _start(self) -> None:
        from ..compiled.cache import for_child

        process = subprocess.Popen(
            python_command(_PROGRAM, str(os.getpid())),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=for_child(),
        )  # fmt: skip
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(self._work())
        process.stdin.close()

    def _work(self) -> bytes:
        return described(self._operators)

    def close(self) -> None:
        """End the helpers, whatever they are doing. Called when everything is compiled."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            with uninterrupted():  # otherwise no thread waits for the process
                threading.Thread(target=process.wait, name="asyncdali-compiling", daemon=True).start()


# --- input of a helper


def described(operators: Sequence[PlannedOperator]) -> bytes:
    """Operators from last to first, without duplicates and without their places in the graph, as many as fit into a pipe."""
    found: dict[bytes, None] = {}
    size = 0
    for planned in reversed(operators):
        if not _may_be_made_elsewhere(planned):
            continue
        spec = planned.spec
        text = pickle.dumps((planned.kind, spec.device, spec.constants, spec.argument_inputs, spec.input_count, spec.output_count))
        size += 0 if text in found else len(text)
        if size > _PIPE:
            break
        found[text] = None
    return b"".join(found)


def _may_be_made_elsewhere(planned: PlannedOperator) -> bool:
    return Trait.ACTS_OUTSIDE not in planned.kind.traits and all(map(_plain, planned.spec.constants.values()))


def _plain(value: object) -> bool:
    """Whether a value contains no object of the user's: another process unpickles it."""
    if isinstance(value, (list, tuple)):
        return all(map(_plain, value))
    if isinstance(value, enum.Enum):
        return type(value).__module__.startswith("asyncdali.")
    return value is None or type(value) in (bool, int, float, str)


def serve(descriptions: object) -> None:
    """Main function of a helper: compile the kernels of operators, until none is left or the process is killed.

    First it makes all operators without compiling, to see what they need, and compiles the longest kernels first: the process that builds
    the pipeline begins with short ones. Then it makes the operators again, because some kernels are known only while others run. A kernel
    that another process compiles is left out. An operator that cannot be made without such a kernel is made once more at the end.

    A text in place of an operator names a module, all of whose kernels are compiled.
    """
    from ..compiled import waiting
    from ..compiled.step import collecting

    found = _read(descriptions)
    with collecting(waiting.CompilePolicy.LIST) as listed:
        for made in found:
            _prepare(made)
    with collecting(waiting.CompilePolicy.SHARE):
        for kernel in sorted(listed.values(), key=lambda kernel: -kernel.weight):
            with contextlib.suppress(Exception):  # Numba's errors: the process that builds the pipeline reports them
                kernel.compile()
        later = [made for made in found if not _prepare(made)]
    for made in later:
        _prepare(made)


def _read(descriptions: Any) -> list[Any]:
    """The descriptions that this process has sent to its helper."""
    found = []
    with contextlib.suppress(EOFError):
        while True:
            found.append(pickle.load(descriptions))  # from our own process
    return found


def _prepare(made: Any) -> bool:
    """Make an operator, or compile the kernels of a module. False: this needs a kernel that is not compiled yet."""
    from ..compiled import waiting
    from ..compiled.step import compile_all

    try:
        if isinstance(made, str):
            compile_all(importlib.import_module(made))
        else:
            _make(made[0], Environment(1, 1, None, False, lambda size: np.empty(size, np.uint8)), *made[1:])
    except waiting.NotCompiled:
        return False
    except Exception as error:
        log.debug("the process that builds the pipeline reports: %s", error)
    return True


def _make(
    kind: type[Operator], environment: Environment, device: str, constants: dict[str, object], argument_inputs: tuple[str, ...],
    input_count: int, output_count: int,
) -> None:  # fmt: skip
    spec = Spec(kind.schema, "compiled", device, constants, argument_inputs, input_count, output_count, seed=0)
    kind(spec, environment).infer([None] * input_count)


# --- kernels that are missing, and all kernels


_LONGEST_LISTING_S = 120
"""Making the operators of a pipeline takes less than a second of a processor."""


def missing(operators: Sequence[PlannedOperator]) -> list[str]:
    """Names of kernels that the operators of a plan need and that are not in the cache. Nothing is compiled.

    Another process makes the operators: here, the address 0 of a kernel could stay behind in an operator's tables. Kernels whose types come
    with the data are not known before the first batch, nor those that an operator needs after it has run another kernel. Operators with
    side effects, or with objects of the user's as arguments, are left out. RuntimeError if the process fails."""
    from ..compiled.cache import for_child

    command = python_command(_PROGRAM.replace("compiling.serve(", "compiling.list_missing("), str(os.getpid()))
    done = subprocess.run(
        command, input=described(operators), capture_output=True, env=for_child(), timeout=_LONGEST_LISTING_S, check=False
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the process that lists missing kernels failed: {done.stderr.decode(errors='replace')[-2000:]}")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def list_missing(descriptions: object) -> None:
    """Print the sorted names of missing kernels, in JSON. Runs in a process of its own."""
    from ..compiled import waiting
    from ..compiled.step import collecting
    from ..device.threads import kernels_of_threads

    with collecting(waiting.CompilePolicy.LIST) as found:
        for kernel in kernels_of_threads():
            kernel.compile()
        for made in _read(descriptions):
            _prepare(made)
    print(json.dumps(sorted(kernel.name for kernel in found.values())))


_DECLARES = re.compile(r"^(@step$|@compiled\(|\w+ = Compiled\()", re.MULTILINE)


def kernel_modules() -> list[str]:
    """The modules of this package that declare kernels."""
    package = __name__.partition(".")[0]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = []
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".py") and _DECLARES.search(_text_of(path)):
                found.append(".".join([package, *os.path.relpath(path, root)[: -len(".py")].split(os.sep)]))
    return sorted(found)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class _ModuleHelpers(Helpers):
    """Helpers that compile all kernels of modules."""

    def __init__(self, modules: Sequence[str]):
        super().__init__(())
        self._modules = modules

    @property
    def _parts(self) -> int:
        return len(self._modules)

    def _work(self) -> bytes:
        return b"".join(map(pickle.dumps, self._modules))


def compile_modules(modules: Sequence[str]) -> int:
    """Compile all kernels of these modules that are missing, on all usable processors. Returns their number."""
    from ..compiled.step import Compiled

    loaded = map(importlib.import_module, modules)
    kernels = {id(value): value for module in loaded for value in vars(module).values() if isinstance(value, Compiled)}
    with Compilation((), _ModuleHelpers(modules)) as compilation:
        compilation.compile(list(kernels.values()))
    return compilation.compiled

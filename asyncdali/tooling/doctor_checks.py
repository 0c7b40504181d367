"""The checks of ``asyncdali doctor``. Each check finds one kind of broken set-up and says how to repair it.

A check takes a :class:`MachineSetup` and returns a :class:`Finding` or None. ``Pipeline.build()`` runs the checks in :data:`QUICK`. These
read a few small files of the system and take less than a millisecond. So modules that only other checks need are imported in those checks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..system.processes import python_command
from . import machine
from .doctor_setup import MachineSetup


@dataclass(frozen=True)
class Finding:
    """A problem and its repair. `check` is the name of the check; `fatal` means that the pipeline cannot run like this.

    A `note` is no problem: it only says what takes time once."""

    check: str
    problem: str
    fix: str
    fatal: bool = False
    note: bool = False

    @property
    def message(self) -> str:
        """Problem and repair in one text."""
        return f"{self.problem}. {self.fix}."


Check = Callable[[MachineSetup], "Finding | None"]


# ------------------------------------------------------------------------------------------------------------------- processors


def cpu_quota(setup: MachineSetup) -> Finding | None:
    """A control group grants less processor time than there are threads."""
    quota = machine.quota(setup.proc, setup.cgroups)
    wanted = setup.num_threads
    if quota is None or wanted <= quota + 0.5:
        return None
    return Finding(
        "cpu_quota",
        f"this container may use {quota:g} CPUs (cgroup quota) and num_threads={wanted}: all threads are stopped again and again, in the "
        "middle of batches",
        f"Use num_threads={max(1, int(quota))}, or give the container more CPUs (docker --cpus, resources.limits.cpu)",
    )


def affinity(setup: MachineSetup) -> Finding | None:
    """The process may run on fewer processors than there are threads."""
    allowed = machine.allowed_cores()
    if setup.num_threads <= allowed:
        return None
    present = os.cpu_count() or allowed
    why = f" of {present} (CPU affinity: taskset, a batch system, numactl)" if present > allowed else ""
    return Finding(
        "affinity", f"this process may run on {allowed} CPU{'s' if allowed > 1 else ''}{why} and num_threads={setup.num_threads}",
        f"Use num_threads={allowed}, or allow more CPUs",
    )  # fmt: skip


def engine_threads(setup: MachineSetup) -> Finding | None:
    """The threads of all engines are far more than the processors."""
    if setup.engines < 2:
        return None
    cores = machine.cores()
    wanted = setup.engines * setup.num_threads
    if setup.num_threads > cores or wanted <= 2 * cores:
        return None  # if num_threads alone is too large, `affinity` reports it
    return Finding(
        "engine_threads",
        f"engines={setup.engines} with num_threads={setup.num_threads} each are {wanted} threads on {cores} CPU{'s' if cores > 1 else ''}",
        f"Use num_threads={max(1, cores // setup.engines)}: each engine has this number of threads" if setup.num_threads > 1
        else f"Use engines={cores}, unless a Python function in them waits for something else than the processor",
    )


_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS")


def nested_in_workers(setup: MachineSetup) -> Finding | None:
    """An environment variable gives every worker process a pool of threads."""
    if not setup.py_num_workers:
        return None
    cores = machine.cores()
    for name in _POOLS:
        value = os.environ.get(name, "").split(",")[0]
        if value.isdigit() and int(value) > 1 and int(value) * setup.py_num_workers > cores:
            return Finding(
                "nested_in_workers",
                f"{name}={value} and py_num_workers={setup.py_num_workers}: {int(value) * setup.py_num_workers} threads of numeric "
                f"libraries share {cores} CPU{'s' if cores > 1 else ''}",
                f"Unset {name} or set it to 1: worker processes use one such thread each unless the environment says otherwise",
            )
    return None


def nested_in_process(setup: MachineSetup) -> Finding | None:
    """Users' Python in the graph calls libraries that start their own threads."""
    if not any(schema.calls_python for schema in setup.schemas()):
        return None
    cores = machine.cores()
    cv2, torch = sys.modules.get("cv2"), sys.modules.get("torch")
    for library, count, fix in (
        ("OpenCV", cv2.getNumThreads() if hasattr(cv2, "getNumThreads") else 1, "cv2.setNumThreads(1)"),  # type: ignore[union-attr]
        ("torch", torch.get_num_threads() if hasattr(torch, "get_num_threads") else 1, "torch.set_num_threads(1)"),  # type: ignore[union-attr]
    ):
        if count > 1 and count + setup.num_threads > cores:
            return Finding(
                "nested_in_process",
                f"{library} has {count} threads of its own for what Python functions and sources of this pipeline call, beside "
                f"num_threads={setup.num_threads}, on {cores} CPU{'s' if cores > 1 else ''}",
                f"Call {fix} before the pipeline is built, or set num_threads lower",
            )
    return None


# ------------------------------------------------------------------------------------------------------------ processes and limits


def cuda_before_fork(setup: MachineSetup) -> Finding | None:
    """Worker processes or engines are to be forked, but CUDA is initialised."""
    workers = setup.py_num_workers and setup.py_start_method == "fork"
    engines = setup.engines and setup.engine_start_method == "fork"
    if not workers and not engines:
        return None
    from asyncdali_workers.cuda import cuda_initialised

    if not cuda_initialised():
        return None
    return Finding(
        "cuda_before_fork", "CUDA is initialised in this process, which therefore cannot fork "
        f"{'worker processes' if workers else 'engines'} any more",
        "Call start_py_workers() on every pipeline before anything uses CUDA, or use "
        f"{'py_start_method' if workers else 'engine_start_method'}='spawn'", fatal=True,
    )  # fmt: skip


def unpicklable_source(setup: MachineSetup) -> Finding | None:
    """A source that must be sent to worker processes cannot be pickled."""
    if setup.py_start_method == "fork":
        return None
    from asyncdali_workers.pickling import SourcePickler, dumps_source

    for name, callback in setup.sources.items():
        try:
            dumps_source(callback, name, SourcePickler(setup.py_callback_pickler))
        except Exception as error:
            return Finding(
                "unpicklable_source", f"a source cannot be sent to worker processes: {error}",
                "Open it in the worker: in __setstate__, or at the first call; or use py_start_method='fork'", fatal=True,
            )  # fmt: skip
    return None


def descriptor_limit(setup: MachineSetup) -> Finding | None:
    """There are too few file descriptors for workers, loops and the files of a batch."""
    used, limit = machine.descriptors()
    wanted = used + 32 + 8 * setup.py_num_workers + 24 * setup.engines + 64
    if limit < 0 or wanted <= limit:
        return None
    return Finding(
        "descriptor_limit",
        f"this process may open {limit} files, has {used} open, and needs about {wanted - used} more "
        f"(py_num_workers={setup.py_num_workers}, engines={setup.engines})",
        f"Raise the limit: `ulimit -n 4096`, LimitNOFILE= of a service, or resource.setrlimit; at least {wanted}", fatal=True,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------------- storage


SLOW = 0.002
_PATIENCE = 1.5
_TRIED = 16


def slow_storage(setup: MachineSetup) -> Finding | None:
    """Files of the data set take long to open and read."""
    for place in setup.places[:4]:
        files = _some_files(place)
        times = _in_time(partial(_look_into, files), _PATIENCE / min(4, len(setup.places)))
        if times is None:
            return Finding(
                "slow_storage", f"{place} ({_file_system(place, setup.proc)}) is very slow: reading the start of "
                f"{len(files)} files takes longer than {_PATIENCE:g} s",
                "Look at the mount (is the server up?), or copy the data to a local disk",
            )  # fmt: skip
        if times and sorted(times)[len(times) // 2] > SLOW:
            return Finding(
                "slow_storage", f"opening a file in {place} and reading its first 4 KB takes {sorted(times)[len(times) // 2] * 1e3:.1f} ms "
                f"({_file_system(place, setup.proc)})",
                "Copy the data to a local disk, pack it into large files (TFRecord, WebDataset), or hide the latency with more num_threads",
            )  # fmt: skip
    return None


def _some_files(place: Path) -> list[Path]:
    """Up to 16 files: the path itself, or files in its folders."""
    if place.is_file():
        return [place]
    found: list[Path] = []
    for folder, _, names in os.walk(place):
        found += [Path(folder, name) for name in sorted(names)[:4]]
        if len(found) >= _TRIED:
            break
    return found[:_TRIED]


def _look_into(files: list[Path]) -> list[float]:
    return [_first_bytes(file) for file in files]


def _first_bytes(file: Path) -> float:
    start = time.perf_counter()
    with open(file, "rb", buffering=0) as opened:
        opened.read(4096)
    return time.perf_counter() - start


def _in_time(work: Callable[[], object], seconds: float) -> Any:
    """The result of `work`. None if `work` fails or takes longer; then its thread is left running."""
    result: list[Any] = []

    def call() -> None:
        try:
            result.append(work())
        except OSError:
            result.append([])  # the reader reports files that cannot be read

    thread = threading.Thread(target=call, name="asyncdali-doctor-files", daemon=True)
    thread.start()
    thread.join(seconds)
    return result[0] if result else None


def _file_system(place: Path, proc: Path) -> str:
    """Type and mount point of the file system of a path."""
    try:
        mounts = [line.split()[1:3] for line in (proc / "self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown file system"
    where = os.path.abspath(place)
    on = [(point, kind) for point, kind in mounts if os.path.commonpath([where, point]) == point]
    point, kind = max(on, key=lambda item: len(item[0]), default=("?", "unknown file system"))
    return f"{kind} at {point}"


def kernel_cache(setup: MachineSetup) -> Finding | None:
    """Compiled kernels cannot be kept."""
    from ..compiled import kernel_store

    try:
        root = kernel_store.chosen_root(os.environ.get("NUMBA_CACHE_DIR"))
        reason = None if _writable(root) else f"{root} cannot be written"
        if reason is None and kernel_store.store_in(root).folder.exists():
            kernel_store.store_in(root).check()
    except kernel_store.RefusedFolder as refusal:
        reason = str(refusal)
    if reason is None:
        return None
    return Finding(
        "kernel_cache", f"compiled kernels cannot be kept ({reason}): every process compiles them again, which takes seconds",
        "Set NUMBA_CACHE_DIR to a folder that belongs to you and that only you can write",
    )  # fmt: skip


_NAMED = 8


def missing_kernels(setup: MachineSetup) -> Finding | None:
    """Kernels of the pipeline are not compiled yet."""
    if not setup.planned:
        return None
    from ..runtime.compiling import missing

    names = missing(setup.planned)
    if not names:
        return None
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    count = "1 kernel" if len(names) == 1 else f"{len(names)} kernels"
    return Finding(
        "missing_kernels",
        f"{count} of this pipeline {'is' if len(names) == 1 else 'are'} not compiled yet ({', '.join(names[:_NAMED])}{more}): the first "
        "build() on this machine compiles them before the first batch, which takes seconds; no batch is slower",
        "`asyncdali cache --fill FILE.py:pipeline` compiles them ahead", note=True,
    )  # fmt: skip


def shipped_kernels(setup: MachineSetup) -> Finding | None:
    """The package's own file of compiled kernels is damaged."""
    from ..compiled.shipped import states

    damaged = [f"{level}: {state}" for level, state in states().items() if isinstance(state, Exception)]
    if not damaged:
        return None
    return Finding(
        "shipped_kernels", f"compiled kernels that came with asyncdali cannot be used ({'; '.join(damaged)}): they are compiled again",
        "Install asyncdali again: pip install --force-reinstall --no-deps asyncdali",
    )  # fmt: skip


def _writable(place: Path) -> bool:
    import tempfile

    while not place.exists() and place != place.parent:
        place = place.parent  # the folder can be made if the folder above it is writable
    try:
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


# ------------------------------------------------------------------------------------------------------------------ libraries


LIBRARIES = {
    "soundfile": ("Opus, MP3, AIFF and AU files cannot be read (WAV, FLAC and Ogg Vorbis can)", "asyncdali[audio]"),
    "cv2": ("PNG, BMP, TIFF, WebP, PNM and JPEG 2000 cannot be decoded (JPEG can)", "opencv-python-headless"),
}
"""The effect of a missing library that operators declare (``Schema.library``), and the package that has it."""


def missing_codec(setup: MachineSetup) -> Finding | None:
    """A library for one of the formats that the pipeline's operators read is missing."""
    for schema in setup.schemas():
        if schema.library and not _importable(schema.library):
            effect, package = LIBRARIES[schema.library]
            text = f"{schema.name}: the module {schema.library} cannot be imported, so {effect}"
            return Finding("missing_codec", text, f"pip install {package}")
    return None


def _importable(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


_PROBE = """
import ctypes, json, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit()
version = ctypes.c_int()
driver.cuDriverGetVersion(ctypes.byref(version))
print(json.dumps({"init": driver.cuInit(0), "version": version.value}))
"""
_CUDA_ERRORS = {
    100: "there is no CUDA device",
    802: "the system is not ready (is nvidia-fabricmanager running?)",
    803: "the kernel's driver and the driver library have different versions",
    804: "the forward compatibility package does not support this GPU",
}


def driver_mismatch(setup: MachineSetup) -> Finding | None:
    """The CUDA driver does not start, or is older than CuPy requires."""
    if not setup.gpu and setup.device_id is None:
        return None
    found = _probe()
    if found is None or "missing" in found:
        return None  # a missing driver is reported by another check
    if found["init"]:
        reason = _CUDA_ERRORS.get(found["init"], "unknown error")
        fix = "Restart the machine (or reload the nvidia modules) after a driver update; in a container, mount the host's libcuda.so.1"
        return Finding("driver_mismatch", f"the CUDA driver does not start: error {found['init']}, {reason}", fix)
    for major in (12, 13):
        if found["version"] // 1000 < major and _installed(f"cupy-cuda{major}x"):
            has = f"{found['version'] // 1000}.{found['version'] % 1000 // 10}"
            return Finding(
                "driver_mismatch", f"the driver supports CUDA {has} and CuPy was made for CUDA {major}",
                f"Update the driver, or install asyncdali[cuda{found['version'] // 1000}] in place of cupy-cuda{major}x",
            )  # fmt: skip
    return None


def _installed(package: str) -> bool:
    import importlib.metadata

    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _probe() -> dict[str, Any] | None:
    """Start the driver in another process: in this process it would forbid forking."""
    import subprocess

    try:
        done = subprocess.run(python_command(_PROBE), capture_output=True, text=True, timeout=3, check=False)
        result: dict[str, Any] | None = json.loads(done.stdout)
        return result
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return None


def no_driver(setup: MachineSetup) -> Finding | None:
    """A GPU is required and there is none."""
    if os.environ.get("ASYNCDALI_DEVICE") != "cuda":
        return None
    found = _probe()
    if found is None or "missing" not in found:
        return None
    return Finding(
        "no_driver", f"ASYNCDALI_DEVICE=cuda, and the CUDA driver cannot be loaded: {found['missing']}",
        "Install the NVIDIA driver (in a container: run it with --gpus all), or unset ASYNCDALI_DEVICE to run on the host device",
        fatal=True,
    )  # fmt: skip


_DECODER_SECONDS = 90
"""Time for trying the decoders: kernels are compiled in it."""


def gpu_decoders(setup: MachineSetup) -> Finding | None:
    """The GPU's JPEG decoders leave pictures out."""
    found = _probe() if setup.gpu else None
    if found is None or "missing" in found or found["init"]:
        return None
    bad = {name: result for name, result in _tried_decoders().items() if result.get("refused") or result.get("changed")}
    if not bad:
        return None
    texts = (
        f"batches of decoder={name!r} with {result['refused']} pictures were not complete, and {result['changed']} pictures were wrong"
        for name, result in bad.items()
    )
    return Finding(
        "gpu_decoders", f"JPEG decoders of this GPU make mistakes: {'; '.join(texts)}",
        'Update the NVIDIA driver and nvJPEG, and use the default decoder (decoder="cpu") until then',
    )  # fmt: skip


def _tried_decoders() -> dict[str, dict[str, Any]]:
    """The results of :mod:`.decoder_check`, from another process; none if it fails."""
    import subprocess

    code = "from asyncdali.tooling.doctor_decoders import main; main()"
    try:
        done = subprocess.run(
            python_command(code), capture_output=True, text=True, timeout=_DECODER_SECONDS, check=False,
            env={**os.environ, "ASYNCDALI_DEVICE": "cuda"},
        )  # fmt: skip
        result: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return result
    except (subprocess.TimeoutExpired, OSError, ValueError, IndexError):
        return {}


_USUAL_INTERVAL = 0.005
"""Python's default, in seconds."""


def switch_interval(setup: MachineSetup) -> Finding | None:
    """Python threads keep the interpreter longer than by default, and a pipeline of a GPU waits for it several times per iteration."""
    interval = sys.getswitchinterval()
    if not setup.gpu or interval <= _USUAL_INTERVAL:
        return None
    return Finding(
        "switch_interval",
        f"sys.getswitchinterval() is {1e3 * interval:g} ms: beside a thread that runs Python, an iteration on a GPU may wait this long "
        "each time that it needs the interpreter (5 to 6 times)",
        "Use sys.setswitchinterval(0.005), Python's default; 0.001 shortens the waits further, and costs the other threads about a quarter "
        "of their speed",
    )


def few_connections(setup: MachineSetup) -> Finding | None:
    """The streams of a pipeline and of a training step share few connections to the GPU."""
    from ..system import connections

    found = connections.number()
    if not setup.gpu or found >= connections.MOST:
        return None
    return Finding(
        "few_connections",
        f"this process has {found} connections to the GPU: launches of decoders wait behind the kernels of a training step (ResNet-18 ran "
        "at 0.82 of its rate, and at 0.95 with 32)",
        f"Import asyncdali before anything uses CUDA, or set {connections.VARIABLE}={connections.MOST} in the environment",
    )


def refused_calls(setup: MachineSetup) -> Finding | None:
    """The kernel or the container refuses system calls that worker processes, engines or pipelines use."""
    from asyncdali_workers.shared import calls

    found = [f"{call.name} ({error.strerror}; {call.purpose}: {call.without})" for call, error in calls.refused()]
    if not found:
        return None
    return Finding(
        "refused_calls", f"system calls are refused: {'; '.join(found)}",
        "Allow them in the container's seccomp profile (docker run --security-opt seccomp=...), or use a newer kernel or container runtime",
    )  # fmt: skip


QUICK: tuple[Check, ...] = (cpu_quota, affinity, engine_threads, nested_in_workers, nested_in_process, descriptor_limit)
ALL: tuple[Check, ...] = (
    *QUICK, cuda_before_fork, unpicklable_source, missing_codec, kernel_cache, shipped_kernels, missing_kernels, slow_storage, no_driver,
    driver_mismatch, gpu_decoders, switch_interval, few_connections, refused_calls,
)  # fmt: skip

"""Names that programs import from DALI's backend: tensors, memory, versions, operators.

Functions that concern CUDA ask the installed driver. Without a driver they raise an error or return a value for "none". Sizes are bytes.
"""

from __future__ import annotations

import enum
import gc
from types import ModuleType

from ..device import allocator
from ..messages.absent import NO_LIBRARIES, refuser
from ..operators import load_registry
from ..operators.base import Schema as OpSchema
from ..operators.base import Spec as OpSpec
from ..tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

_VERSION_ABSENT = -1


class DLDeviceType(enum.IntEnum):
    """Kinds of memory in DLPack's numbering."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


# ----------------------------------------------------------------------------------------------------------------------- memory


def PreallocateDeviceMemory(bytes: int, device_id: int) -> None:
    """Allocate device memory once and give it to CUDA's pool, so that later allocations are served from the pool.

    RuntimeError without a CUDA driver or without enough memory; ValueError for a negative size.
    """
    _preallocate(bytes, device_id, pinned=False)


def PreallocatePinnedMemory(bytes: int) -> None:
    """The same for pinned host memory."""
    _preallocate(bytes, None, pinned=True)


def _preallocate(size: int, device_id: int | None, pinned: bool) -> None:
    if size < 0:
        raise ValueError(f"cannot allocate {size} bytes: the size must not be negative")
    cupy = _cupy("memory cannot be preallocated")
    if pinned:
        cupy.cuda.alloc_pinned_memory(size)
        return
    with cupy.cuda.Device(device_id):
        cupy.get_default_memory_pool().malloc(size)


def ReleaseUnusedMemory() -> None:
    """Give unused memory back to the system: pools of closed pipelines, cupy's pools, the allocator's free pages."""
    gc.collect()
    allocator.trim()
    if GetCUDADeviceCount():
        cupy = _cupy("")
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


_factors = {"device growth": 1.1, "host growth": 1.1, "host shrink": 0.5}


def _set_factor(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"the {name} factor must be in [{lowest}, {highest}], got {value}")
    _factors[name] = float(value)


def SetDeviceBufferGrowthFactor(factor: float) -> None:
    """Store the number, without effect: pools grow by size classes. ValueError outside of 1 to 4."""
    _set_factor("device growth", factor, 1, 4)


def GetDeviceBufferGrowthFactor() -> float:
    """The stored number."""
    return _factors["device growth"]


def SetHostBufferGrowthFactor(factor: float) -> None:
    """Like :func:`SetDeviceBufferGrowthFactor`."""
    _set_factor("host growth", factor, 1, 4)


def GetHostBufferGrowthFactor() -> float:
    """The stored number."""
    return _factors["host growth"]


def SetBufferGrowthFactor(factor: float) -> None:
    """Set both growth factors."""
    SetHostBufferGrowthFactor(factor)
    SetDeviceBufferGrowthFactor(factor)


def SetHostBufferShrinkThreshold(threshold: float) -> None:
    """Store the number, without effect. ValueError outside of 0 to 1."""
    _set_factor("host shrink", threshold, 0, 1)


def GetHostBufferShrinkThreshold() -> float:
    """The stored number."""
    return _factors["host shrink"]


def RestrictPinnedMemUsage() -> bool:
    """Whether pinned memory is restricted: False."""
    return False


# ------------------------------------------------------------------------------------------------------------------------- CUDA


def _cupy(what: str) -> ModuleType:
    """cupy, if it has a device; otherwise RuntimeError that `what` cannot be done."""
    if not GetCUDADeviceCount():
        raise RuntimeError(f"{what}: there is no CUDA driver or no GPU here, or cupy is not installed (pip install asyncdali[cuda12])")
    import cupy

    found: ModuleType = cupy
    return found


def GetCUDADeviceCount() -> int:
    """Number of usable GPUs; 0 without a driver or without cupy."""
    from ..device.select import cuda_driver_present

    if not cuda_driver_present():
        return 0
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # cupy is missing, or finds a driver that it cannot use
        return 0


def IsDriverInitialized() -> bool:
    """Whether there is a usable GPU."""
    return GetCUDADeviceCount() > 0


def initialized() -> bool:
    """True: the package needs no initialisation."""
    return True


def Init(*_: object, **__: object) -> None:
    """Does nothing: the package needs no initialisation."""


def GetCUDACurrentDevice() -> int:
    """The calling thread's device; RuntimeError without a driver."""
    return int(_cupy("the current device cannot be found out").cuda.runtime.getDevice())


def SetCUDACurrentDevice(device_id: int) -> None:
    """Make a device the calling thread's. RuntimeError without a driver."""
    _cupy("the current device cannot be set").cuda.runtime.setDevice(device_id)


def CUDAStreamSynchronize(stream: int) -> None:
    """Wait for a stream, given by its handle. RuntimeError without a driver."""
    _cupy("the stream cannot be synchronised").cuda.runtime.streamSynchronize(int(stream))


def check_cuda_runtime() -> None:
    """Warn if no GPU can be used."""
    from ..messages.notices import warn

    if not GetCUDADeviceCount():
        warn("no GPU can be used: GPU operators run on the host device (`asyncdali doctor` says why)", UserWarning)


def GetCudaVersion() -> int:
    """CUDA's version, 12040 for 12.4; 0 without a driver."""
    return int(_cupy("").cuda.runtime.runtimeGetVersion()) if GetCUDADeviceCount() else 0


def GetOpenCVVersion() -> str:
    """The version of OpenCV that decodes PNG, TIFF and others."""
    import cv2

    return str(cv2.__version__)


def GetNvjpegVersion() -> int:
    """-1: the version of nvJPEG is not determined."""
    return _VERSION_ABSENT


GetCufftVersion = GetNppVersion = GetNvimgcodecVersion = GetNvjpegVersion


def GetCxx11AbiFlag() -> int:
    """1, the value of current compilers. Nothing here was compiled with it."""
    return 1


# -------------------------------------------------------------------------------------------------------------------- operators


def _schemas() -> dict[str, OpSchema]:
    """Schemas by DALI's names: "Resize", "readers__File", "_conditional__Split"."""
    from ..graph.calls import schema_name

    return {schema_name(name): kind.schema for kind in load_registry().values() for name in (kind.schema.name, *kind.schema.aliases)}


def GetSchema(name: str, follow_aliases: bool = False) -> OpSchema:
    """The declaration of an operator by DALI's name, "readers__File"; KeyError if there is none."""
    found = TryGetSchema(name, follow_aliases)
    if found is None:
        raise KeyError(f"Schema for operator '{name}' not registered")
    return found


def TryGetSchema(name: str, follow_aliases: bool = False) -> OpSchema | None:
    """Like :func:`GetSchema`, but None if there is none."""
    return _schemas().get(name)


def GetSchemaAndTarget(name: str) -> tuple[OpSchema, str]:
    """The declaration, and the operator that does the work (a different one if `name` is a deprecated alias)."""
    from ..graph.calls import schema_name

    schema = GetSchema(name)
    return schema, schema_name(schema.name)


def _registered(device: str, internal_ops: bool) -> list[str]:
    return sorted(name for name, schema in _schemas().items() if device in schema.devices and (internal_ops or not name.startswith("_")))


def RegisteredCPUOps(internal_ops: bool = False) -> list[str]:
    """DALI's names of the operators that run on the CPU."""
    return _registered("cpu", internal_ops)


def RegisteredGPUOps(internal_ops: bool = False) -> list[str]:
    """DALI's names of the operators that run on a GPU."""
    return _registered("gpu", internal_ops)


def RegisteredMixedOps(internal_ops: bool = False) -> list[str]:
    """DALI's names of the operators that take CPU data to a GPU."""
    return _registered("mixed", internal_ops)


# -------------------------------------------------------------------------------------------------------------------- libraries


def LoadLibrary(library_path: str, global_symbols: bool = False, allow_fail: bool = False) -> None:
    """Raises RuntimeError that says what to use instead. With `allow_fail` nothing happens."""
    from .plugin_manager import load_library

    try:
        load_library(library_path, global_symbols)
    except RuntimeError:
        if not allow_fail:
            raise


def LoadDirectory(path: str, global_symbols: bool = False, allow_fail: bool = False) -> None:
    """Like :func:`LoadLibrary`, for each library in a folder."""
    from .plugin_manager import load_directory

    try:
        load_directory(path, global_symbols)
    except RuntimeError:
        if not allow_fail:
            raise


def LoadDefaultPlugins() -> None:
    """An empty list: there are no libraries."""


def deprecation_warning(what: str) -> None:
    """A DeprecationWarning with a text."""
    from ..messages.notices import warn

    warn(what, DeprecationWarning)


__all__ = [
    "CUDAStreamSynchronize", "DLDeviceType", "GetCUDACurrentDevice", "GetCUDADeviceCount", "GetCudaVersion", "GetCufftVersion",
    "GetCxx11AbiFlag", "GetDeviceBufferGrowthFactor", "GetHostBufferGrowthFactor", "GetHostBufferShrinkThreshold", "GetNppVersion",
    "GetNvimgcodecVersion", "GetNvjpegVersion", "GetOpenCVVersion", "GetSchema", "GetSchemaAndTarget", "Init", "IsDriverInitialized",
    "LoadDefaultPlugins", "LoadDirectory", "LoadLibrary", "OpSchema", "OpSpec", "PreallocateDeviceMemory", "PreallocatePinnedMemory",
    "RegisteredCPUOps", "RegisteredGPUOps", "RegisteredMixedOps", "ReleaseUnusedMemory", "RestrictPinnedMemUsage",
    "SetBufferGrowthFactor", "SetCUDACurrentDevice", "SetDeviceBufferGrowthFactor", "SetHostBufferGrowthFactor",
    "SetHostBufferShrinkThreshold", "TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "TryGetSchema", "check_cuda_runtime",
    "deprecation_warning", "initialized",
]  # fmt: skip

_ENGINE = "asyncdali does not have DALI's C++ objects"

_absent = refuser("asyncdali.backend", {
    "CheckDLPackCapsule": "use asyncdali.types or numpy.from_dlpack, which check capsules themselves",
    "ExternalContextCheckpoint": f"{_ENGINE}; use Pipeline.checkpoint() and the iterators' checkpoints()",
    "GetCUDAStreamDevice": "see cupy.cuda.ExternalStream, or the library that made the stream",
    "Pipeline": f"{_ENGINE}; use asyncdali.Pipeline",
    "PipelineDebug": f"{_ENGINE}; use pipeline_def(debug=True)",
    "SharedMem": "use multiprocessing.shared_memory; worker processes share memory by themselves (docs/workers.md)",
    "Stream": "use asyncdali.types.CUDAStream",
    "cuda_checked": "see backend.IsDriverInitialized()",
    "LoadPlugin": NO_LIBRARIES,
})  # fmt: skip


def __getattr__(name: str) -> object:
    """`__cuda_version__` is :func:`GetCudaVersion`, found out at the first use: asyncdali is not compiled for one version of CUDA."""
    return GetCudaVersion() if name == "__cuda_version__" else _absent(name)

"""What programs import from DALI's backend: tensors, memory, versions, and which operators there are.

Functions about CUDA ask the installed driver; without one they say so, or return what stands for "none". Sizes are bytes.
"""

from __future__ import annotations

import enum
import gc
from typing import Any

from ._absent import NO_LIBRARIES, refuser
from .device import host_memory
from .operators import load_registry
from .operators.base import Schema as OpSchema
from .operators.base import Spec as OpSpec
from .tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

_VERSION_ABSENT = -1


class DLDeviceType(enum.IntEnum):
    """Kinds of memory in DLPack's numbering."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


# ----------------------------------------------------------------------------------------------------------------------- memory


def PreallocateDeviceMemory(bytes: int, device_id: int) -> None:
    """Takes device memory from the driver once and gives it back to CUDA's pool, so that later allocations are served from there.

    Raises RuntimeError without a CUDA driver or when the memory is not there, ValueError for a negative size.
    """
    _preallocate(bytes, device_id, pinned=False)


def PreallocatePinnedMemory(bytes: int) -> None:
    """The same for pinned host memory."""
    _preallocate(bytes, None, pinned=True)


def _preallocate(size: int, device_id: int | None, pinned: bool) -> None:
    if size < 0:
        raise ValueError(f"cannot allocate {size} bytes")
    cupy = _cupy("memory cannot be preallocated")
    if pinned:
        cupy.cuda.alloc_pinned_memory(size)
        return
    with cupy.cuda.Device(device_id):
        cupy.get_default_memory_pool().malloc(size)


def ReleaseUnusedMemory() -> None:
    """Gives memory back to the system that no pipeline uses: pools of closed pipelines, cupy's pools, the allocator's free pages."""
    gc.collect()
    host_memory.trim()
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
    """Keeps the number: pools here grow by size classes, and memory use does not depend on it. ValueError outside of 1 to 4."""
    _set_factor("device growth", factor, 1, 4)


def GetDeviceBufferGrowthFactor() -> float:
    """What was set."""
    return _factors["device growth"]


def SetHostBufferGrowthFactor(factor: float) -> None:
    """As :func:`SetDeviceBufferGrowthFactor`."""
    _set_factor("host growth", factor, 1, 4)


def GetHostBufferGrowthFactor() -> float:
    """What was set."""
    return _factors["host growth"]


def SetBufferGrowthFactor(factor: float) -> None:
    """Both growth factors."""
    SetHostBufferGrowthFactor(factor)
    SetDeviceBufferGrowthFactor(factor)


def SetHostBufferShrinkThreshold(threshold: float) -> None:
    """Keeps the number, as the growth factors. ValueError outside of 0 to 1."""
    _set_factor("host shrink", threshold, 0, 1)


def GetHostBufferShrinkThreshold() -> float:
    """What was set."""
    return _factors["host shrink"]


def RestrictPinnedMemUsage() -> bool:
    """Whether pinned memory is used sparingly: never."""
    return False


# ------------------------------------------------------------------------------------------------------------------------- CUDA


def _cupy(what: str) -> Any:
    """cupy with a device; RuntimeError that says `what` cannot be done."""
    if not GetCUDADeviceCount():
        raise RuntimeError(f"{what}: there is no CUDA driver or no GPU here, or cupy is not installed (pip install asyncdali[cuda12])")
    import cupy

    return cupy


def GetCUDADeviceCount() -> int:
    """Number of GPUs that can be used; 0 without a driver or without cupy."""
    from .device.select import cuda_driver_present

    if not cuda_driver_present():
        return 0
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # cupy is absent, or finds a driver it cannot use
        return 0


def IsDriverInitialized() -> bool:
    """Whether there is a GPU to be used."""
    return GetCUDADeviceCount() > 0


def initialized() -> bool:
    """Whether the package is ready: always."""
    return True


def Init(*_: Any, **__: Any) -> None:
    """Nothing: the package needs no initialization."""


def GetCUDACurrentDevice() -> int:
    """The calling thread's device; RuntimeError without a driver."""
    return int(_cupy("the current device cannot be told").cuda.runtime.getDevice())


def SetCUDACurrentDevice(device_id: int) -> None:
    """Makes a device the calling thread's; RuntimeError without a driver."""
    _cupy("no device can be chosen").cuda.runtime.setDevice(device_id)


def CUDAStreamSynchronize(stream: int) -> None:
    """Waits for a stream, given by its handle; RuntimeError without a driver."""
    _cupy("a stream cannot be waited for").cuda.runtime.streamSynchronize(int(stream))


def check_cuda_runtime() -> None:
    """Warns where no GPU can be used."""
    from ._notices import warn

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
    """-1: the version of nvJPEG is not asked for."""
    return _VERSION_ABSENT


GetCufftVersion = GetNppVersion = GetNvimgcodecVersion = GetNvjpegVersion


def GetCxx11AbiFlag() -> int:
    """1, as compilers have it today; nothing here was compiled with it."""
    return 1


# -------------------------------------------------------------------------------------------------------------------- operators


def _schemas() -> dict[str, OpSchema]:
    """Schemas by DALI's names: "Resize", "readers__File", "_conditional__Split"."""
    from .graph.calls import schema_name

    return {schema_name(name): kind.schema for kind in load_registry().values() for name in (kind.schema.name, *kind.schema.aliases)}


def GetSchema(name: str, follow_aliases: bool = False) -> OpSchema:
    """The declaration of an operator by DALI's name, "readers__File"; KeyError if there is none."""
    found = TryGetSchema(name, follow_aliases)
    if found is None:
        raise KeyError(f"Schema for operator '{name}' not registered")
    return found


def TryGetSchema(name: str, follow_aliases: bool = False) -> OpSchema | None:
    """As :func:`GetSchema`, None if there is none."""
    return _schemas().get(name)


def GetSchemaAndTarget(name: str) -> tuple[OpSchema, str]:
    """The declaration, and the name of the operator that does the work (another one where `name` is a deprecated alias)."""
    from .graph.calls import schema_name

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
    """Refuses: RuntimeError that says what to write instead; nothing happens with `allow_fail`."""
    from .plugin_manager import load_library

    try:
        load_library(library_path, global_symbols)
    except RuntimeError:
        if not allow_fail:
            raise


def LoadDirectory(path: str, global_symbols: bool = False, allow_fail: bool = False) -> None:
    """As :func:`LoadLibrary` for each library in a folder."""
    from .plugin_manager import load_directory

    try:
        load_directory(path, global_symbols)
    except RuntimeError:
        if not allow_fail:
            raise


def LoadDefaultPlugins() -> None:
    """Nothing: there are none."""


def deprecation_warning(what: str) -> None:
    """A DeprecationWarning with a text."""
    from ._notices import warn

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

_ENGINE = "asyncdali has an engine of its own, not DALI's C++ objects"

__getattr__ = refuser(__name__, {
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

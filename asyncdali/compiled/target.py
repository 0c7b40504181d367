"""The processor for which kernels are compiled: a level of x86-64, and not the exact processor.

The levels are those of the x86-64 psABI (v3 has AVX2, v4 has AVX-512), and v4 with AVX-512's tables of bytes (VBMI). Server processors have
VBMI since Ice Lake and Zen 4, and pipelines of table look-ups are twice as fast with VBMI. Code for a level runs on every processor that
has the level, and gives the same bits there. So kernels can be compiled once and shipped, and the machines of a fleet compare their levels.
Other processors, and x86 processors without AVX2, are compiled for exactly. ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` choose another
target, as with Numba.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from typing import Any, NamedTuple

_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "pclmul", "sse4.2")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
LEVELS = {"x86-64-v4-vbmi": (*_V4, "avx512vbmi"), "x86-64-v4": _V4, "x86-64-v3": _V3}
"""Levels, best first, with LLVM's names of the features that kernels may ask for. ``pclmul`` is not in the psABI's levels, but in every
processor with AVX2."""
_OF_LLVM = {"x86-64-v4-vbmi": ("x86-64-v4", "+avx512vbmi,+pclmul")}
"""LLVM's processor and the features to add to it, for levels that LLVM does not know."""
_OF_LINUX = {"bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq", "sse4.2": "sse4_2"}
"""Linux's names of features that have another name there."""
_HEAD = 16384
"""Bytes of ``/proc/cpuinfo`` that describe the first processor."""


class Target(NamedTuple):
    """A target of LLVM. `features`: a list of LLVM, ``+avx2,-avx512f``."""

    machine: str
    processor: str
    features: str


def setting(name: str) -> Any:
    """One of Numba's settings: of its module if that is loaded, else of the environment. None or empty: not set."""
    config = sys.modules.get("numba.core.config")
    return getattr(config, name, None) if config is not None else os.environ.get(f"NUMBA_{name}")


@functools.cache
def flags() -> frozenset[str]:
    """Linux's names of the processor's features, as far as the system supports them. Empty on other systems."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(_HEAD).decode("ascii", "replace").split("\n")
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(found.partition(":")[2].split())


def level() -> str | None:
    """The best level that this processor has. None: another processor."""
    if platform.machine() != "x86_64":
        return None
    return next((name for name, needed in LEVELS.items() if {_OF_LINUX.get(feature, feature) for feature in needed} <= flags()), None)


def _target_of(name: str) -> Target:
    """The target of a level."""
    return Target(platform.machine(), *_OF_LLVM.get(name, (name, "+pclmul")))


@functools.cache
def target() -> Target:
    """The target of this process."""
    chosen, features = setting("CPU_NAME"), setting("CPU_FEATURES")
    if str(chosen).lower() == "generic" and features is None:  # as Numba does
        features = ""
    if not chosen and features is None:
        found = level()
        if found is not None:
            return _target_of(found)
    import llvmlite.binding as llvm

    if features is None:
        try:
            features = llvm.get_host_cpu_features().flatten()
        except RuntimeError:  # LLVM does not know this processor's features
            features = ""
    return Target(platform.machine(), chosen or llvm.get_host_cpu_name(), features)


def chosen_level() -> str | None:
    """The level for which kernels are compiled. None: the target is an exact processor."""
    return next((name for name in LEVELS if _target_of(name) == target()), None)


def forced(name: str) -> dict[str, str]:
    """Environment variables for a process whose target is a level."""
    _, processor, features = _target_of(name)
    return {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features}


@functools.cache
def processor_has(feature: str) -> bool:
    """Whether the target of kernels has `feature` (LLVM's name)."""
    name = chosen_level()
    if name is not None:
        return feature in LEVELS[name]
    return f"+{feature}" in target().features.split(",")

"""The parts of the machine that this process may use: processors, descriptors, memory."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def allowed_cores() -> int:
    """Number of processors that this process may run on (affinity)."""
    from asyncdali_workers.shared.calls import processors

    return len(processors())


def quota(proc: Path = PROC, cgroups: Path = CGROUPS) -> float | None:
    """Number of processors whose time the control groups (versions 1 and 2) grant this process. None: no limit."""
    limits = []
    for line in _lines(proc / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folders = _up(cgroups, path) + _up(cgroups / "unified", path)
            limits += [_limit_of_two(folder) for folder in folders]
        elif "cpu" in controllers.split(","):
            limits += [_limit_of_one(folder) for name in {controllers, "cpu"} for folder in _up(cgroups / name, path)]
    return min((limit for limit in limits if limit is not None), default=None)


def _up(root: Path, path: str) -> list[Path]:
    """The group's folder and the folders above it, as each may set a limit. In a container the path may be the host's path."""
    parts = [part for part in path.split("/") if part]
    return [root.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]


def _limit_of_two(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    return None if len(words) < 2 or words[0] == "max" else int(words[0]) / int(words[1])


def _limit_of_one(folder: Path) -> float | None:
    allowed, period = (" ".join(_lines(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    return None if not allowed or not period or int(allowed) <= 0 else int(allowed) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def cores() -> int:
    """Number of threads that can run at the same time: the allowed processors, limited by the quota."""
    limit = quota()
    return allowed_cores() if limit is None else max(1, min(allowed_cores(), math.floor(limit + 0.5)))


def descriptors() -> tuple[int, int]:
    """(open now, limit) of file descriptors."""
    return len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def forget_peak() -> None:
    """Reset :func:`peak_memory`, if the system allows it."""
    try:
        (PROC / "self/clear_refs").write_text("5")
    except OSError:
        pass  # then the peak counts from the start of the process


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    for line in _lines(PROC / "self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""The time limit of an engine that starts.

A start may be slow: modules are imported, a program is loaded, kernels are compiled, and all processors may be busy. So the limit is not
for the whole start. It is for a time without progress: no message came, and the process used almost no processor.
"""

from __future__ import annotations

import os
from time import monotonic

LIMIT = 300.0
"""Seconds without progress after which an engine that starts is given up; `engine_timeout`, if that is longer.

More than the 120 s for which a process waits for a kernel that another one compiles."""
SHARE = 0.05
"""A process that uses less of a processor makes no progress. (A thread that looks for something every 5 ms uses 0.01.)"""
CHECKS = 10
"""Checks per limit."""


class Start:
    """The progress of an engine from now until it is ready. `timeout`: `engine_timeout`. `process`: its id, or its forker's; 0: unknown."""

    def __init__(self, timeout: float | None, process: int):
        self.limit = max(LIMIT, timeout or 0.0)
        self._process = process
        self.progressed()

    def progressed(self, process: int = 0) -> None:
        """A message has come. `process` is the id of the engine, if the message has it."""
        self._process = process or self._process
        self._since, self._used = monotonic(), processor_time(self._process)

    def stuck(self) -> bool:
        """Whether there was no progress for the limit."""
        if monotonic() - self._since < self.limit:
            return False
        if processor_time(self._process) - self._used < SHARE * self.limit:
            return True
        self.progressed()
        return False

    @property
    def reason(self) -> str:
        """The end of a sentence that begins with the engine."""
        return (
            f"did not get ready: no message came from it for {self.limit:g} s, and it used almost no processor. Something that it imports, "
            "loads or builds waits (for a lock, a network file, another process)"
        )


def processor_time(process: int) -> float:
    """Seconds of processors that a process and the children that it waited for have used; 0.0 if that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

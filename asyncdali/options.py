"""Pipeline options: defaults, checks, and values derived from them."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .messages.notices import near, warn
from .types import CPU_ONLY_DEVICE_ID, DALIDataType, OperatorConcurrency, StreamPolicy

_START_METHODS = ("fork", "spawn", "forkserver")
ACTIONS = ("raise", "replace", "drop")
"""Allowed actions for a bad sample."""
REST = "*"
"""In `on_error`: all operators that are not named."""
MOST_THREADS = 4096
"""More threads than any machine has processors. A stored pipeline that asks for more is damaged."""
DEEPEST = 2**16
MOST_ENGINES = 1024
_FLAGS = (
    "exec_pipelined", "exec_async", "set_affinity", "enable_memory_stats", "enable_statistics", "enable_checkpointing", "strict",
    "exec_dynamic",
)  # fmt: skip


@dataclass
class PipelineOptions:
    """The arguments of :class:`asyncdali.Pipeline`, which documents them."""

    batch_size: Any = None
    num_threads: Any = None
    device_id: Any = None
    seed: Any = None
    exec_pipelined: bool = True
    prefetch_queue_depth: Any = 2
    exec_async: bool = True
    bytes_per_sample: Any = 0
    set_affinity: bool = False
    max_streams: Any = None
    default_cuda_stream_priority: Any = None
    enable_memory_stats: bool = False
    enable_statistics: bool = True
    enable_checkpointing: bool = False
    checkpoint: Any = None
    strict: bool = True
    py_num_workers: Any = 1
    py_start_method: str = "fork"
    py_callback_pickler: Any = None
    worker_timeout: float | None = None
    max_retries: int = 2
    engines: int = 0
    engine_start_method: str = "fork"
    engine_timeout: float | None = None
    engine_cut: Any = None
    engine_sources: bool = True
    output_dtype: Any = None
    output_ndim: Any = None
    output_layout: Any = None
    exec_dynamic: bool | None = None
    experimental_exec_dynamic: bool | None = None
    on_error: Any = "raise"
    replace_from: str = "shard"
    max_bad: Any = None
    quarantine: Any = None
    stream_policy: StreamPolicy | None = None
    concurrency: OperatorConcurrency | None = None

    def __post_init__(self) -> None:
        self._check_seed()
        self._check_depth()
        self._check_deprecated()
        self._check_kinds()
        if self.exec_dynamic is None and self.exec_pipelined and self.exec_async and not self.exec_separated:
            self.exec_dynamic = True
        self._check_expectations()

    def fill_in(self, stored: dict[str, object]) -> None:
        """Take batch size, threads and seed from the options of a stored pipeline if they were not given."""
        for name in ("batch_size", "num_threads", "seed"):
            if getattr(self, name) is None:
                setattr(self, name, stored.get(name))
        self._check_seed()

    # --- derived values

    @property
    def exec_separated(self) -> bool:
        """Whether the queues of the CPU and of the GPU have depths of their own."""
        return isinstance(self.prefetch_queue_depth, dict)

    @property
    def cpu_queue_size(self) -> int:
        """Depth of the queue of the CPU stage."""
        return int(self.prefetch_queue_depth["cpu_size"] if self.exec_separated else self.prefetch_queue_depth)

    @property
    def gpu_queue_size(self) -> int:
        """Depth of the queue of the GPU stage."""
        return int(self.prefetch_queue_depth["gpu_size"] if self.exec_separated else self.prefetch_queue_depth)

    @property
    def depth(self) -> int:
        """Number of iterations launched by the first run."""
        if not self.exec_pipelined:
            return 1
        return max(self.cpu_queue_size, self.gpu_queue_size)

    def cut_names(self) -> list[str] | None:
        """Names of the operators at which a pipeline with engines is cut; None: the default cut. TypeError for a value that is no node."""
        if self.engine_cut is None:
            return None
        names = []
        for item in self.engine_cut if isinstance(self.engine_cut, (list, tuple)) else [self.engine_cut]:
            source = getattr(item, "source", None)
            name = item if isinstance(item, str) else getattr(source, "name", None)
            if not isinstance(name, str):
                raise TypeError(f"engine_cut takes nodes, names of operators, or a list of these; got {item!r}")
            names.append(name)
        return names

    def affinity(self) -> list[int] | None:
        """CPUs to pin worker threads to, or None."""
        if not self.set_affinity:
            return None
        mask = os.environ.get("DALI_AFFINITY_MASK", "")
        try:
            chosen = [int(part) for part in mask.split(",") if part.strip()]
        except ValueError:
            raise ValueError(f"DALI_AFFINITY_MASK={mask!r}: expected comma-separated CPU numbers") from None
        from .system.processes import processors

        return chosen or processors()

    # --- at construction

    def _check_seed(self) -> None:
        if self.seed is None or isinstance(self.seed, float) or not hasattr(self.seed, "__index__"):
            return
        if int(self.seed) < 0:
            warn(f"seed={self.seed} is negative: a different seed is drawn every time, as with seed=None", UserWarning)
            self.seed = None

    def _check_depth(self) -> None:
        depth = self.prefetch_queue_depth
        if type(depth) is dict:
            for key in ("cpu_size", "gpu_size"):
                if key not in depth:
                    raise KeyError(f"prefetch_queue_depth needs the keys 'cpu_size' and 'gpu_size', got {sorted(depth)}")
            if not self.exec_async:
                raise ValueError("separate CPU and GPU queues (a dict as prefetch_queue_depth) need exec_async=True")
        elif type(depth) is not int:
            raise TypeError(f"prefetch_queue_depth must be an int, or a dict with 'cpu_size' and 'gpu_size'; got {depth!r}")

    def _check_deprecated(self) -> None:
        for name in ("max_streams", "default_cuda_stream_priority"):
            if getattr(self, name) is not None:
                warn(f"Pipeline argument `{name}` has no effect", DeprecationWarning)
        if self.experimental_exec_dynamic is not None:
            warn("`experimental_exec_dynamic` is called `exec_dynamic` now", DeprecationWarning)
            if self.exec_dynamic is None:
                self.exec_dynamic = self.experimental_exec_dynamic

    def _check_kinds(self) -> None:
        for name in _FLAGS:
            if isinstance(getattr(self, name), Collection):  # the text "no" would count as true
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.stream_policy is not None and not isinstance(self.stream_policy, StreamPolicy):
            raise TypeError(f"stream_policy must be a StreamPolicy, got {self.stream_policy!r}")
        if self.concurrency is not None and not isinstance(self.concurrency, OperatorConcurrency):
            raise TypeError(f"concurrency must be an OperatorConcurrency, got {self.concurrency!r}")
        if self.py_start_method not in _START_METHODS:
            raise ValueError(f"py_start_method is {self.py_start_method!r}; it must be one of {', '.join(_START_METHODS)}")
        if self.engine_start_method not in _START_METHODS:
            raise ValueError(f"engine_start_method is {self.engine_start_method!r}; it must be one of {', '.join(_START_METHODS)}")
        if isinstance(self.engines, bool) or not isinstance(self.engines, int):
            raise TypeError(f"engines must be an int, got {self.engines!r}")
        if not isinstance(self.engine_sources, bool):
            raise TypeError(f"engine_sources must be a bool, got {self.engine_sources!r}")
        if not 0 <= self.engines <= MOST_ENGINES:
            raise ValueError(f"engines must be from 0 (work in this process) to {MOST_ENGINES}, got {self.engines}")
        self._check_bad_samples()
        self.cut_names()
        if self.py_callback_pickler is not None and self.py_start_method == "fork":
            raise ValueError("py_callback_pickler is only used with py_start_method='spawn' or 'forkserver'")

    def _check_bad_samples(self) -> None:
        for name, choice in (self.on_error if isinstance(self.on_error, Mapping) else {"": self.on_error}).items():
            if not callable(choice) and choice not in ACTIONS:
                allowed = "'raise', 'replace', 'drop', a function (error, entry) -> one of these, or a dict of these by operator"
                of = f" of {name!r}" if name else ""
                raise ValueError(f"on_error{of} is {choice!r}; it must be {allowed}")
        if self.replace_from not in ("shard", "data set"):
            raise ValueError(f"replace_from is {self.replace_from!r}; it must be 'shard' or 'data set'")
        most = self.max_bad
        if most is not None and (isinstance(most, bool) or not isinstance(most, (int, float)) or most < 0):
            raise ValueError(f"max_bad is a number of samples, or a fraction of the data set below 1; got {most!r}")
        if isinstance(most, float) and most >= 1:
            raise ValueError(f"max_bad={most} is a fraction of the data set, which is below 1; give an int for a number of samples")
        if self.on_error == "raise" and (most is not None or self.quarantine is not None):
            raise ValueError("max_bad and quarantine need on_error='replace', 'drop' or a function: with 'raise' no sample is left out")

    def _check_expectations(self) -> None:
        for value in _each(self.output_dtype):
            if value is not None and not isinstance(value, DALIDataType):
                raise TypeError(f"output_dtype must be a DALIDataType, None, or a list of these; got {value!r}")
            if value == DALIDataType.NO_TYPE:
                raise ValueError("output_dtype cannot be NO_TYPE; use None for an output of any type")
        for value in _each(self.output_ndim):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise TypeError(f"output_ndim must be an int, None, or a list of these; got {value!r}")
            if value is not None and value < 0:
                raise ValueError(f"output_ndim cannot be negative, got {value}")
        for value in _each(self.output_layout):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"output_layout must be a str, None, or a list of these; got {value!r}")

    def expected(self, name: str, count: int) -> list[Any]:
        """One expected value per output. RuntimeError if a list has another length."""
        value = getattr(self, name)
        if not isinstance(value, (list, tuple)):
            return [value] * count
        if len(value) != count:
            raise RuntimeError(f"{name} has {len(value)} entries; the lengths must agree: the pipeline has {count} outputs")
        return list(value)

    # --- at build

    def check_for_build(self) -> None:
        """Raise ValueError or TypeError for options that cannot run."""
        if self.batch_size is None:
            raise ValueError("batch size must be set: pass batch_size=... to the Pipeline")
        _positive_int("batch_size", self.batch_size, 2**31 - 1)
        if self.num_threads is None:
            raise ValueError("num_threads must be set: pass num_threads=... (at least 1) to the Pipeline")
        _positive_int("num_threads", self.num_threads, MOST_THREADS)
        if self.exec_separated:
            for key, value in self.prefetch_queue_depth.items():
                _positive_int(f"prefetch_queue_depth[{key!r}]", value, DEEPEST)
        else:
            _positive_int("prefetch_queue_depth", self.prefetch_queue_depth, DEEPEST)
        self._check_numbers()
        if self.exec_separated and self.exec_dynamic:
            raise RuntimeError(
                "No supported executor: exec_dynamic=True cannot have separate CPU and GPU queues (a dict as prefetch_queue_depth)"
            )
        if self.checkpoint is not None and not self.enable_checkpointing:
            raise RuntimeError("Cannot restore checkpoint. The `enable_checkpointing` was not specified when creating the pipeline")
        if self.enable_checkpointing and self.exec_separated:
            raise RuntimeError("Checkpointing is not supported with `separated` pipeline execution mode enabled.")

    def _check_numbers(self) -> None:
        if self.seed is not None:
            if not hasattr(self.seed, "__index__"):
                raise TypeError(f"seed must be an integer, got {self.seed!r}")
            if int(self.seed) >= 2**63:
                raise TypeError(f"seed must fit in 63 bits, got {self.seed}")
        if self.device_id is not None and (not hasattr(self.device_id, "__index__") or isinstance(self.device_id, bool)):
            raise TypeError(f"device_id must be an int or None, got {self.device_id!r}")
        if self.device_id is not None and self.device_id < 0 and self.device_id != CPU_ONLY_DEVICE_ID:
            raise RuntimeError(f"device_id={self.device_id} is invalid: GPUs are numbered from 0; use None for a pipeline without GPU")
        _positive_number("worker_timeout", self.worker_timeout)
        _positive_number("engine_timeout", self.engine_timeout)
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise ValueError(f"max_retries must be an int of at least 0, got {self.max_retries!r}")
        if not hasattr(self.bytes_per_sample, "__index__") or not 0 <= self.bytes_per_sample < 2**62:
            raise TypeError(f"bytes_per_sample must be a non-negative int below 2**62, got {self.bytes_per_sample!r}")


@functools.cache
def option_names() -> tuple[str, ...]:
    """Names of all arguments of a Pipeline."""
    return tuple(field.name for field in fields(PipelineOptions))


_ELSEWHERE = {"deliver": " For batches in the order in which they are finished, use fn.experimental.ready(*nodes, window=8) in the graph."}
"""Arguments that a Pipeline does not have, and what has their effect."""


def unknown_option(where: str, name: str, known: Sequence[str]) -> str:
    """The message for an unknown keyword argument of `where`, with similar names."""
    return f"{where}() got an unexpected keyword argument {name!r}.{_ELSEWHERE.get(name) or near(name, known)}"


def _each(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _positive_number(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or None, got {value!r}")
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {value}")


def _positive_int(name: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if not 1 <= value <= largest:
        raise ValueError(f"{name} must be at least 1 and at most {largest}, got {value}")

"""Options of a serialized pipeline: which are stored, and how they may be spelt when they are read."""

from __future__ import annotations

from typing import Any

from ..options import PipelineOptions, option_names

_NOT_STORED = (
    "checkpoint", "strict", "py_callback_pickler", "max_streams", "default_cuda_stream_priority", "experimental_exec_dynamic",
    "engines", "engine_start_method", "engine_timeout", "engine_cut", "engine_sources",  # options that say where a pipeline runs
)  # fmt: skip


def stored_options(options: PipelineOptions) -> dict[str, Any]:
    """The options to store: those that differ from their defaults."""
    defaults = PipelineOptions()
    values = {name: getattr(options, name) for name in option_names() if name not in _NOT_STORED}
    return {name: value for name, value in values.items() if value != getattr(defaults, name)}


def own_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options named by the bytes. RuntimeError for options that :func:`stored_options` never stores, because others made the bytes."""
    for name in options:
        if name in _NOT_STORED or name not in option_names():
            raise RuntimeError(f"Error parsing serialized pipeline: {name!r} is not an option that is stored")
    return options


def both_spellings(options: dict[str, Any]) -> dict[str, object]:
    """`prefetch_queue_depth` of deserialize may name its queues "cpu" and "gpu", as in DALI."""
    depth = options.get("prefetch_queue_depth")
    if isinstance(depth, dict) and depth.keys() == {"cpu", "gpu"}:
        return {**options, "prefetch_queue_depth": {"cpu_size": depth["cpu"], "gpu_size": depth["gpu"]}}
    return options

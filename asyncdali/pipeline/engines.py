"""Starts a pipeline's engines."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..options import PipelineOptions
from .pipeline import Pipeline

if TYPE_CHECKING:
    from ..engines.pool import EnginePool


def start_engines(pipeline: Pipeline, opened: Callable[[Callable[[], None]], None]) -> EnginePool:
    """Start the engines of a pipeline that is about to be built. `opened` is called first, with the function that ends them."""
    from ..engines.pool import EnginePool
    from ..engines.program import Program

    options = pipeline._options
    # In an engine no pipeline may be built by a function that the pipeline calls, so every pipeline stays unbuilt there.
    seed = secrets.randbits(62) if options.seed is None else int(options.seed)
    program = Program(
        options, pipeline._output_nodes(), pipeline._definition.instances, seed, pipeline._access, pipeline._calling(seed),
        options.cut_names(), pipeline,
    )  # fmt: skip
    pool = EnginePool(program, options.engines, options.engine_start_method, options.engine_timeout, calling_elsewhere)
    opened(pool.close)
    pool.start()
    return pool


def calling_elsewhere(options: PipelineOptions, seed: int) -> Callable[[], AbstractContextManager[None]]:
    """The context in which an engine, which has no pipeline, calls functions of the user."""
    from .callbacks import calling

    stand_in = Pipeline.__new__(Pipeline)
    stand_in.__dict__.update(_options=options, _reported={}, output_names=None, _closed=True)
    return calling(stand_in, seed)



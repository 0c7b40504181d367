"""Starts a pipeline's engines."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engines.parent.pool import EnginePool
    from ..engines.wire.program import Program
    from .core import Core


def program_of(core: Core) -> Program:
    """The graph of a pipeline, as engines need it. Draws the seed if none was given."""
    from ..engines.wire.program import Program

    options = core.options
    seed = secrets.randbits(62) if options.seed is None else int(options.seed)
    return Program(
        options, core.output_nodes(), core.definition.instances, seed, core.access, core.calling(seed), options.cut_names(),
        core.definition, core.enter_engine,
    )  # fmt: skip


def start_engines(core: Core, opened: Callable[[Callable[[], None]], None]) -> EnginePool:
    """Start the engines of a pipeline that is about to be built. `opened` is called first, with the function that ends them."""
    from ..engines.parent.pool import EnginePool

    options = core.options
    # Functions that the pipeline calls in an engine cannot build a pipeline there.
    program = program_of(core)
    pool = EnginePool(program, options.engines, options.engine_start_method, options.engine_timeout, core.pipeline._calling_elsewhere)
    core.processes.program = program
    opened(pool.close)
    pool.start()
    return pool

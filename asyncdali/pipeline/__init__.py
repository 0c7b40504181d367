"""The public class Pipeline and the decorator pipeline_def.

    callbacks.py         The result of `Pipeline.current()` in Python functions that a running pipeline calls
    closing.py           Closes open pipelines before the interpreter exits, so that threads and worker processes end first
    comparing.py         Pipelines, stored graphs and checkpoints as sides of a comparison
    conversion.py        pipeline_def with `enable_conditionals=True`: rewrites and traces the graph function
    core.py              The core of a pipeline: options, definition, session, worker processes
    dali_names.py        Underscore names that programs for DALI read, set or call on a pipeline, although DALI does not document them
    debug.py             DebugPipeline: runs the pipeline function in every iteration, operator by operator
    debug_calls.py       Debug mode: calls of operators and of sources in the user's program, which are matched from iteration to
                         iteration
    debug_definition.py  Debug mode inside the pipeline function: operators run when they are called, and nodes hold data
    epochs.py            Iterators over one epoch of a pipeline
    experimental.py      DALI's module for `pipeline_def` with `debug`
    front.py             The common base of the parts of :class:`~asyncdali.Pipeline`: it holds the core, which does the work
    pipeline.py          Pipeline: the public class
    processes.py         Processes of a pipeline: the workers of its parallel sources, and its engines
    properties.py        Properties of a pipeline: its options and outputs
    replaying.py         Makes one step again, with the results of all operators
    reports.py           Reports of a pipeline: its readers, its statistics, and its plan
    rewinding.py         Moves a built pipeline to another position
    running.py           Running a pipeline: synchronous, scheduled and asynchronous calls, and feeding data
    storing.py           Options of a serialized pipeline: which are stored, and how they may be spelt when they are read
    streams.py           The sessions behind select, mix, batch_by, ready: one core for each part of each regrouping
    walking.py           Which raw samples a step behind select, mix or batch_by has, without running the steps before

May import every room below: engines, runtime, sources, graph, tensors, options. Only plugins, tools and the package's top import it.
"""

from __future__ import annotations

from .._absent import refuser
from ..data_node import DataNode
from ..graph.rewrite.marks import do_not_convert
from ..types import OperatorConcurrency, StreamPolicy
from . import experimental
from .decorator import pipeline_def
from .pipeline import Pipeline

__all__ = ["DataNode", "OperatorConcurrency", "Pipeline", "StreamPolicy", "do_not_convert", "experimental", "pipeline_def"]

__getattr__ = refuser(__name__, {"WorkerPool": "see asyncdali_workers (docs/workers.md) for a pool of Python processes"})

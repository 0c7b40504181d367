"""The public class Pipeline and the decorator pipeline_def.

    callbacks.py     The result of `Pipeline.current()` in Python functions that a running pipeline calls
    closing.py       Closes open pipelines before the interpreter exits, so that threads and worker processes end first
    conversion.py    pipeline_def with `enable_conditionals=True`: rewrites and traces the graph function
    core.py          The core of a pipeline: options, definition, session, worker processes
    decorator.py     pipeline_def: turns graph functions into pipelines
    engines.py       Starts a pipeline's engines
    epochs.py        Iterators over one epoch of a pipeline
    experimental.py  DALI's module for `pipeline_def` with `debug`
    front.py         The common base of the parts of :class:`~asyncdali.Pipeline`: it holds the core, which does the work
    pipeline.py      Pipeline: the public class
    processes.py     Processes of a pipeline: the workers of its parallel sources, and its engines
    properties.py    Properties of a pipeline: its options and outputs
    reports.py       Reports of a pipeline: its readers, its statistics, and its plan
    running.py       Running a pipeline: synchronous, scheduled and asynchronous calls, and feeding data
    storing.py       Options of a serialized pipeline: which are stored, and how they may be spelt when they are read
    streams.py       The sessions behind select, mix, batch_by, ready: one core for each part of each regrouping

    debug/               Debug mode: the pipeline function runs in every iteration
    replay/              Steps made again, their provenance behind regroupings, and a pipeline at another position

May import every room below: engines, runtime, sources, graph, tensors, options. Only plugins, tools and the package's top import it.
"""

from __future__ import annotations

from ..data_node import DataNode
from ..graph.rewrite.marks import do_not_convert
from ..messages.absent import refuser
from ..types import OperatorConcurrency, StreamPolicy
from . import experimental
from .decorator import pipeline_def
from .pipeline import Pipeline

__all__ = ["DataNode", "OperatorConcurrency", "Pipeline", "StreamPolicy", "do_not_convert", "experimental", "pipeline_def"]

__getattr__ = refuser(__name__, {"WorkerPool": "see asyncdali_workers (docs/workers.md) for a pool of Python processes"})

"""Timed overlap of a cpu, a mixed and a gpu step of 10 ms each (test operators that wait). One iteration after another takes 30 ms; with
three in flight an iteration takes 10 ms. The structural proof, without time, is ``tests/unit/runtime/test_executor.py``."""

from __future__ import annotations

import time
from typing import Any

from .harness import Table

STEP = 0.010


def _wait_operator() -> Any:
    """An operator in its own segment. It keeps its stage busy for STEP seconds and passes its input on."""
    from asyncdali.batch import Batch
    from asyncdali.operators.base import REGISTRY, Operator, Planned, Schema, register

    if "_bench_wait" in REGISTRY:
        return REGISTRY["_bench_wait"].schema

    @register
    class Wait(Operator):
        schema = Schema(name="_bench_wait", doc="Waits.", devices=("cpu", "mixed", "gpu"))
        barrier = True
        eager = True

        def plan(self, inputs: Any, arguments: Any, iteration: Any) -> Planned:
            time.sleep(STEP)
            source = inputs[0]
            return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])

    return Wait.schema


def overlap() -> Table:
    """Milliseconds per iteration at prefetch depths 1 to 4."""
    import asyncdali
    from asyncdali.graph.node import make

    schema = _wait_operator()
    table = Table("overlap of cpu, mixed and gpu steps of 10 ms each", ["prefetch depth", "ms per iteration"])
    for depth in (1, 2, 3, 4):

        @asyncdali.pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=depth)
        def graph() -> Any:
            node = asyncdali.fn.random.uniform()
            for device in ("cpu", "mixed", "gpu"):
                node = make(schema, (node,), {"device": device})
            return node

        pipeline = graph()
        pipeline.run()
        pipeline.run()
        start = time.perf_counter()
        for _ in range(30):
            pipeline.run()
        table.add(depth, (time.perf_counter() - start) / 30 * 1e3)
        pipeline.close()
    table.notes.append("perfect: 30, 15, 10, 10")
    return table

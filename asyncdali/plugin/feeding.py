"""Pipelines that a plugin feeds: one iteration for each batch fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..pipeline.front import core_of

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..runtime.executor import Record


def fed_inputs(pipeline: Pipeline) -> list[str]:
    """Names of the external inputs without a source (builds)."""
    return [port.name for port in core_of(pipeline).built().producer.sources.pushed]


def feed_and_launch(pipeline: Pipeline, data: Mapping[str, Any], layouts: Mapping[str, str | None] | None = None) -> Record | None:
    """Feed every input a batch and queue the iteration that takes them; only that one, at the start, too.

    Returns the iteration; None if there is none, for a source of the pipeline's own has ended or failed: a fetch behind the iterations in
    flight tells. Errors as `feed_input`; no input is fed then.
    """
    core = core_of(pipeline)
    core.refuse_in_callbacks("feeding a batch")
    producer = core.built().producer
    ports = {name: producer.sources.port(name) for name in data}
    batches = {name: port.accepted(data[name], (layouts or {}).get(name)) for name, port in ports.items()}
    for name, port in ports.items():
        port.drop()  # what a call left that was interrupted
        port.queue(batches[name])
    producer._started = True  # no burst: nothing would feed it
    before = producer.launched
    producer.schedule(pipeline.iter_setup)
    producer.wait_without_frames()
    return producer.in_flight[-1] if producer.launched > before else None

"""Pipelines that a plugin feeds: one iteration for each batch fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..pipeline import Pipeline


def fed_inputs(pipeline: Pipeline) -> list[str]:
    """Names of the external inputs without a source (builds)."""
    return [port.name for port in pipeline._built().producer.sources.pushed]


def feed_and_launch(pipeline: Pipeline, data: Mapping[str, Any], layouts: Mapping[str, str | None] | None = None) -> None:
    """Feed every input a batch and queue the iteration that takes them; only that one, at the start, too. Errors as `feed_input`."""
    for name, samples in data.items():
        pipeline.feed_input(name, samples, layout=(layouts or {}).get(name))
    producer = pipeline._built().producer
    producer._started = True  # no burst: nothing would feed it
    producer.schedule(pipeline.iter_setup)

"""Samples that a source could not give, for pipelines that leave out bad samples.

A source that is asked sample by sample may fail for one of them. With ``Puller.keeps_errors`` the others are asked nevertheless. The batch
is then a :class:`SamplesFailed`, which fails its iteration. ``runtime/repairs`` makes the iteration again with other samples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from asyncdali_workers.interrupts import raised_by_signal

from ..batch import Batch
from ..errors import set_aside


class FailedSample:
    """Stands for a sample in a list of samples: the source has raised `error` for it."""

    def __init__(self, error: Exception):
        self.error = set_aside(error)


class SamplesFailed(Exception):
    """In place of a batch: the source failed for some of its samples.

    Attributes:
        samples: what the source gave, sample by sample, or :class:`FailedSample`.
    """

    def __init__(self, samples: Sequence[object]):
        super().__init__(f"the source failed for {sum(type(sample) is FailedSample for sample in samples)} of {len(samples)} samples")
        self.samples: Sequence[Any] = samples

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def errors(self) -> dict[int, Exception]:
        """The errors by sample."""
        return {k: sample.error for k, sample in enumerate(self.samples) if type(sample) is FailedSample}


Answer: TypeAlias = "Mapping[str, Batch | SamplesFailed]"
"""The answer of a source, by input."""


def kept(callback: Callable[..., object], *position: object) -> object:
    """A sample of a source, or the error. The end of the data is raised."""
    try:
        return callback(*position)
    except StopIteration:
        raise
    except Exception as error:
        if raised_by_signal(error):
            raise
        return FailedSample(error)


async def kept_async(callback: Callable[..., Awaitable[object]], is_end: Callable[[Exception], bool], *position: object) -> object:
    """As :func:`kept`, for a source that is awaited."""
    try:
        return await callback(*position)
    except Exception as error:
        if is_end(error):
            raise
        return FailedSample(error)


def of_samples(samples: Sequence[object]) -> Sequence[object] | SamplesFailed:
    """The samples, or SamplesFailed if there are some for which the source failed."""
    return SamplesFailed(samples) if any(type(sample) is FailedSample for sample in samples) else samples


def raise_last(samples: list[object]) -> None:
    """Raise the error of the last sample, if it failed. Call this at the end of the data: a generator that raises has ended, too."""
    last = samples[-1] if samples else None
    if isinstance(last, FailedSample):
        samples.pop()
        error = last.error
        del last
        try:
            raise error
        finally:
            del error

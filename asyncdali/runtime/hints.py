"""Buffers that `build()` allocates because of hints: `bytes_per_sample` of the pipeline, `bytes_per_sample_hint` of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from asyncdali_workers.limits import TooLarge

from ..errors import OperatorValueError
from ..graph.plan import PlannedOperator
from ..operators.base import Role

if TYPE_CHECKING:
    from .order.executor import Executor

HINT = "bytes_per_sample_hint"


def hinted(planned: PlannedOperator) -> Iterator[int]:
    """Bytes of a sample of each output, where the user gave a hint. A hint of a source concerns its worker processes."""
    spec = planned.spec
    if not spec.given(HINT) or spec.schema.role is Role.INPUT:
        return
    sizes = spec.constant(HINT)
    if len(sizes) not in (1, spec.output_count) or min(sizes) < 0:
        raise OperatorValueError(
            f"{spec.schema.name}: `{HINT}` is {sizes}; expected numbers from 0, one or one for each of {spec.output_count} outputs"
        )
    yield from sizes * (spec.output_count // len(sizes))


def reserve(executor: Executor, operators: list[PlannedOperator], batch_size: int, bytes_per_sample: int | None) -> None:
    """Allocate buffers for the first batches. Raises TooLarge (a MemoryError) that names the hint."""
    if bytes_per_sample:
        _reserve(executor.pool.reserve, bytes_per_sample, batch_size, f"{bytes_per_sample=}")
    for planned in operators:
        on_gpu = planned.spec.device != "cpu" and executor.gpu is not None
        for size in hinted(planned):
            _reserve(executor.gpu.reserve if on_gpu else executor.pool.reserve, size, batch_size, f"{HINT}={size}")  # type: ignore[union-attr]


def _reserve(pool: Callable[[int], None], size: int, samples: int, given: str) -> None:
    try:
        pool(size * samples)
    except TooLarge as error:
        raise TooLarge(f"the first buffer cannot be made ({given}, batch_size={samples}): {error}") from None

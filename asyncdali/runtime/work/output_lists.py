"""Lists of tensors that users get of the batches of an iteration: in memory of their own, checked against declarations of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...batch import Batch
from ...errors import OperatorError
from ...options import PipelineOptions
from ...tensors import TensorListCPU, TensorListGPU
from ...tensors.lists import made_by, makers
from ..order.moments import Moment
from .output_copies import OutputCopies

if TYPE_CHECKING:
    from ..order.placement import OutputMemory


class OutputLists:
    """Makes the lists of a pipeline with `count` outputs.

    Attributes:
        dtypes, ndims, layouts: what the user has declared of each output; None: nothing.
        expects: whether the user has declared something of an output.
    """

    def __init__(self, options: PipelineOptions, count: int, memory: OutputMemory):
        self.dtypes = options.expected("output_dtype", count)
        self.ndims = options.expected("output_ndim", count)
        self.layouts = options.expected("output_layout", count)
        self.expects = any(value is not None for value in (*self.dtypes, *self.ndims, *self.layouts))
        self._copies = OutputCopies(memory.copies)
        self._makers = makers(0 if options.device_id is None else int(options.device_id), memory.on_device)

    def compile(self) -> None:
        """Compile or load the code of the copies now, not at the first output."""
        self._copies.compile()

    def of(self, outputs: list[Batch], moment: Moment) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """The lists of an iteration. `moment`: the position at which it was made."""
        return tuple([made_by(self._tensor_list(batch), moment) for batch in outputs])

    def _tensor_list(self, batch: Batch) -> TensorListCPU | TensorListGPU:
        if batch.reused is not False or batch.alias_of is not None:  # rarely true; saves two calls
            batch = self._copies.private(batch)
        return self._makers[batch.device](batch)

    def copied(self, batch: Batch) -> Batch:
        """The samples one after another in memory of their own."""
        batch.reused = True
        return self._copies.private(batch)

    def mismatch(self, outputs: list[Batch]) -> OperatorError | None:
        """The error if an output is not what the user has declared."""
        return mismatch(outputs, self.dtypes, self.ndims, self.layouts)


def mismatch(
    outputs: Sequence[Batch], dtypes: Sequence[object], ndims: Sequence[object], layouts: Sequence[object]
) -> OperatorError | None:  # fmt: skip
    """The error if an output has not the type, number of dimensions or layout that was declared of it; None: nothing was declared."""
    for index, (batch, dtype, ndim, layout) in enumerate(zip(outputs, dtypes, ndims, layouts, strict=True)):
        found: tuple[str, str] | None = None
        if dtype is not None and batch.dtype != dtype:
            found = ("type", f"expected {dtype}, got {batch.dtype!s}")
        elif ndim is not None and batch.ndim != ndim:
            found = ("number of dimensions", f"expected {ndim}, got {batch.ndim}")
        elif layout is not None and batch.layout != layout:
            found = ("layout", f"expected {layout!r}, got {batch.layout!r}")
        if found:
            return OperatorError(f"Output {index} has an unexpected {found[0]}: {found[1]}")
    return None

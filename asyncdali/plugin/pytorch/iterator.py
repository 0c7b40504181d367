"""Iterators that return torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..base_iterator import ArgumentsError, BaseIterator
from ..epochs import LastBatchPolicy
from .convert import sample_tensors, tensor_of, to_torch_type


class _TorchIterator(BaseIterator):
    """The common base of the iterators of this module."""

    @staticmethod
    def _stream(device: int) -> int | None:
        return torch.cuda.current_stream(device).cuda_stream if torch.backends.cuda.is_built() else None


class DALIGenericIterator(_TorchIterator):
    """Every `next` returns a list with a dict {name: tensor [samples, ...]} for each pipeline.

    Tensors are views of the pipeline's memory, without a copy. They stay valid while they are referenced. PARTIAL batches are slices.
    Tensors on a GPU are ordered on torch's current stream; `next` does not wait for them.

    Arguments and errors are those of :class:`~asyncdali.plugin.base_iterator.BaseIterator`. `dynamic_shape` is accepted for programs
    written for older versions and has no effect: shapes may always change. RuntimeError for samples that differ in shape.
    """

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str] | None = None,
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ):
        super().__init__(
            pipelines, output_map, size, reader_name, auto_reset, fill_last_batch, last_batch_padded, last_batch_policy, prepare_first_batch
        )

    def _converted(self, outputs: tuple[Any, ...], keep: int | None) -> dict[str, torch.Tensor]:
        tensors = {}
        for name, output in zip(self.output_map, outputs, strict=True):
            tensor = tensor_of(output, name)
            tensors[name] = tensor if keep is None else tensor[:keep]
        return tensors


class DALIClassificationIterator(DALIGenericIterator):
    """:class:`DALIGenericIterator` for pipelines of two outputs, named "data" and "label"."""

    def __init__(
        self,
        pipelines: object,
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ):
        super().__init__(
            pipelines, ["data", "label"], size, reader_name, auto_reset, fill_last_batch, dynamic_shape, last_batch_padded,
            last_batch_policy, prepare_first_batch,
        )  # fmt: skip


class DALIRaggedIterator(_TorchIterator):
    """A :class:`DALIGenericIterator` for outputs whose samples differ in shape.

    `output_types` gives the form of each output. DENSE_TAG: a tensor [samples, ...]. SPARSE_LIST_TAG: a list of tensors, one per sample.
    SPARSE_COO_TAG: a sparse tensor [samples, longest] of one-dimensional samples. None: all outputs are dense.

    Raises ValueError for other tags or a wrong number of them.
    """

    DENSE_TAG = "dense"
    SPARSE_LIST_TAG = "sparse_list"
    SPARSE_COO_TAG = "sparse_coo"

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str] | None = None,
        size: int = -1,
        reader_name: str | None = None,
        output_types: Sequence[str] | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ):
        tags = (self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG)
        if output_types is not None and not all(kind in tags for kind in output_types):
            raise ArgumentsError(f"output_types are DENSE_TAG, SPARSE_LIST_TAG or SPARSE_COO_TAG, got {list(output_types)}")
        if output_types is not None and output_map is not None and len(output_types) != len(output_map):
            raise ArgumentsError(f"output_types has {len(output_types)} entries, output_map {len(output_map)}")
        self._output_types = None if output_types is None else list(output_types)
        super().__init__(
            pipelines, output_map, size, reader_name, auto_reset, fill_last_batch, last_batch_padded, last_batch_policy, prepare_first_batch
        )

    _output_tags = frozenset((DENSE_TAG, SPARSE_LIST_TAG, SPARSE_COO_TAG))

    @property
    def _outputs_types(self) -> list[str]:
        """The tag of each output."""
        return self._output_types or [self.DENSE_TAG] * len(self.output_map)

    def _converted(self, outputs: tuple[object, ...], keep: int | None) -> dict[str, object]:
        kinds = self._output_types or [self.DENSE_TAG] * len(outputs)
        return {name: self._one(output, kind, name, keep) for name, output, kind in zip(self.output_map, outputs, kinds, strict=True)}

    def _one(self, output: Any, kind: str, name: str, keep: int | None) -> Any:
        if kind == self.DENSE_TAG:
            return tensor_of(output, name)[:keep]
        if keep is not None:
            output = output[:keep]
        return sample_tensors(output) if kind == self.SPARSE_LIST_TAG else _sparse(output, name)


def _sparse(output: Any, name: str) -> torch.Tensor:
    """A COO tensor [samples, longest] of one-dimensional samples. RuntimeError for samples of another rank."""
    if len(output) and output.ndim() != 1:
        raise RuntimeError(f"output {name!r}: a sparse tensor is made of one-dimensional samples, these have {output.ndim()} dimensions")
    samples = sample_tensors(output)
    lengths = torch.tensor([len(sample) for sample in samples], dtype=torch.int64)
    total, longest = int(lengths.sum()), int(lengths.max()) if len(samples) else 0
    rows = torch.repeat_interleave(torch.arange(len(samples)), lengths)
    columns = torch.arange(total) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)
    values = torch.cat(samples) if samples else torch.empty(0, dtype=to_torch_type.get(output.dtype))
    return torch.sparse_coo_tensor(torch.stack([rows, columns]).to(values.device), values, (len(samples), longest), check_invariants=False)

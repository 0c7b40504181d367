"""decoders.inflate: compressed data as tensors."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import CHOSEN, Input, Output, argument
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names

INFLATE_RECORD = Table(
    "INFLATE_RECORD",
    Field("first", "int64", "number of the sample's first chunk"),
    Field("chunks", "int64", "chunks of the sample"),
    Field("bytes", "int64", "of a chunk in the output"),
)
INFLATE_CHUNK = Table(
    "INFLATE_CHUNK",
    Field("offset", "int64", "bytes of the sample before the chunk"),
    Field("bytes", "int64", "of the chunk, compressed"),
)
INFLATE = Table(
    "INFLATE",
    INPUTS,
    OUTPUTS,
    Field("records", "INFLATE_RECORD[samples]", "samples"),
    Field("chunks", "INFLATE_CHUNK[chunks]", "chunks of all samples"),
    Field("exact", "int64", "1: a chunk must have the size of its output"),
    SAMPLES,
    Field("statuses", "int64[chunks]", "of the chunks, written by the kernel"),
)

ALGORITHMS = ("LZ4",)


@register
class Inflate(KernelOperator):
    kernel_module = "inflate_kernels"
    """Decompresses LZ4. On a GPU a warp decompresses a chunk; the host reads the chunk's status when the launch has completed."""

    repeatable = True
    on_cuda = True
    schema = Schema(
        name="decoders.inflate",
        aliases=("experimental.inflate",),
        doc="""Decompresses LZ4 blocks (without a frame's header).

        Input: 1-D UINT8. A sample is one block with an array of `shape` and `dtype`. With `chunk_offsets` or `chunk_sizes` it has several
        blocks of that shape, and the output has one more axis, in front. A block with fewer bytes is filled with zeros; a block
        with more bytes is truncated. With `check_output_size` both are errors. Data that is no LZ4 block is always an error.
        On a GPU the batch is delivered when the work is done, because errors are known only then.""",
        accepts=(Input((DALIDataType.UINT8,), name="compressed data", ranks=(1,)),),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("algorithm", "str", "LZ4", 'Compression: "LZ4", in upper or lower case.'),
            Arg("check_output_size", "bool", False, "Whether a block that decompresses to another size is an error."),
            Arg("chunk_offsets", "int_list", None, "Where the blocks of a sample begin, in bytes, increasing.", tensor=True),
            Arg("chunk_sizes", "int_list", None, "Bytes of the blocks; by default up to the next offset.", tensor=True),
            Arg("dtype", "dtype", DALIDataType.UINT8, "Element type of the output."),
            Arg("layout", "layout", "", "Layout of a block's array."),
            Arg("sequence_axis_name", "layout", "F", "Name of the axis of the blocks, if the output has this axis."),
            Arg("shape", "int_list", REQUIRED, "Shape of a block's array.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("algorithm").upper() not in ALGORITHMS:
            raise ValueError(f"Unknown `algorithm` {spec.constant('algorithm')!r}; supported are {', '.join(ALGORITHMS)}")
        if len(spec.constant("sequence_axis_name")) != 1:
            raise ValueError(f"`sequence_axis_name` must be one letter, got {spec.constant('sequence_axis_name')!r}")
        self._chunked = spec.given("chunk_offsets") or spec.given("chunk_sizes")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.inflate_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        sizes = source.shapes[:, 0]
        refuse_where(sizes == 0, lambda _: "the sample is empty")
        shapes = self._shapes(arguments)
        dtype, layout = self.spec.constant("dtype"), self.spec.constant("layout")
        if layout and len(layout) != shapes.shape[1]:
            raise ValueError(f'`layout` "{layout}" has {len(layout)} letters; `shape` has {shapes.shape[1]} dimensions')
        chunks = [self._chunks(arguments, i, int(size)) for i, size in enumerate(sizes)]
        records, word = INFLATE_RECORD.zeros(len(source)), INFLATE_RECORD.word
        records[:, word.chunks] = [len(rows) for rows in chunks]
        records[:, word.first] = np.cumsum(records[:, word.chunks]) - records[:, word.chunks]
        records[:, word.bytes] = shapes.prod(axis=1) * storage_dtype(dtype).itemsize
        if self._chunked:
            shapes = np.concatenate([records[:, word.chunks, None], shapes], axis=1)
            layout = self.spec.constant("sequence_axis_name") + layout if layout or shapes.shape[1] == 1 else ""
        output = Batch(shapes, dtype, layout, source_info=source.source_info)
        rows = np.concatenate([*chunks, INFLATE_CHUNK.zeros(0)])
        exact = self.spec.constant("check_output_size")
        allocate = self.environment.mapped
        return Planned([output], [self.kernels.make_inflate_step(source.addresses, output.addresses, records, rows, exact, allocate)])

    @staticmethod
    def _shapes(arguments: Arguments) -> np.ndarray:
        """Shapes of a block's array, int64[samples, ndim]."""
        if arguments.is_input("shape"):
            batch = arguments.batch("shape")
            if batch.ndim > 1 or storage_dtype(batch.dtype).kind not in "iu":
                raise ValueError(f"`shape` must be integers, a scalar or 1-D, got {batch.ndim}-D {batch.dtype.name}")
            extents = batch.shapes[:, 0] if batch.ndim else np.ones(len(batch))
            wrong = extents != extents[:1]
            refuse_where(wrong, lambda i: f"`shape` has {int(extents[i])} dimensions, that of sample 0 has {int(extents[0])}")
        shapes = arguments.vectors("shape", None, np.int64)
        refuse_where(shapes < 0, lambda i: f"`shape` must not be negative, got {shapes[i].tolist()}")
        return shapes

    def _chunks(self, arguments: Arguments, sample: int, size: int) -> np.ndarray:
        """The chunks of a sample of `size` bytes, INFLATE_CHUNKs."""
        if not self._chunked:
            return np.array([[0, size]], np.int64)
        offsets, sizes = (_numbers(arguments, name, sample) for name in ("chunk_offsets", "chunk_sizes"))
        if offsets is not None and ((offsets < 0) | (offsets >= size)).any():
            raise SampleError(sample, f"`chunk_offsets` must be 0 to {size - 1}, bytes of the sample, got {offsets.tolist()}")
        if sizes is not None and ((sizes <= 0) | (sizes > size)).any():
            raise SampleError(sample, f"`chunk_sizes` must be 1 to {size}, the bytes of the sample, got {sizes.tolist()}")
        if sizes is None:
            assert offsets is not None
            if (np.diff(offsets) <= 0).any():
                raise SampleError(sample, f"`chunk_offsets` must increase where there are no `chunk_sizes`, got {offsets.tolist()}")
            sizes = np.diff(np.append(offsets, size))
        elif offsets is None:
            offsets = np.cumsum(sizes) - sizes
        if len(offsets) != len(sizes):
            raise SampleError(sample, f"{len(offsets)} `chunk_offsets` for {len(sizes)} `chunk_sizes`: the numbers must be equal")
        if (offsets + sizes > size).any():
            k = int(np.argmax(offsets + sizes > size))
            raise SampleError(sample, f"chunk {k} ends at byte {offsets[k] + sizes[k]}; the sample has {size}")
        return np.stack([offsets, sizes], axis=1)


def _numbers(arguments: Arguments, name: str, sample: int) -> np.ndarray | None:
    """The values of an argument for a sample, int64[n]; None if it is not given."""
    if not arguments.given(name):
        return None
    if not arguments.is_input(name):
        return np.asarray(arguments.constant(name), np.int64)
    values = arguments.batch(name).sample(sample)
    if values.ndim > 1 or values.dtype.kind not in "iu":
        raise SampleError(sample, f"`{name}` must be integers, a scalar or 1-D, got {values.ndim}-D {values.dtype.name}")
    return np.atleast_1d(values).astype(np.int64)

"""Per-frame arguments: operators that treat every frame of a sequence as a sample.

An argument input whose layout begins with F (``fn.per_frame``) has a value for each frame of the input, or one for all frames. The operator
then plans a batch of frames, with as many arguments, and its steps run frame by frame. The output is a batch of sequences again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.frame_tables import FRAMES, LATE_INPUT
from ...device.launch import Launch
from ..base import Arguments, Environment, Iteration, Operator, Planned, SampleError, Spec, Step


class Frames:
    """Number of frames of each sample of a batch: `counts` int64[samples]."""

    def __init__(self, counts: np.ndarray):
        self.counts = counts
        self.ends = np.cumsum(counts)
        self.first = self.ends - counts
        self.total = int(counts.sum())
        limits.check_size(24 * self.total, f"a batch of {self.total:,} frames")
        self.sample = np.repeat(np.arange(len(counts)), counts)
        """int64[frames]: the sample of each frame."""
        self.number = np.arange(self.total) - self.first[self.sample]
        """int64[frames]: number of the frame in its sample."""

    def largest(self, extents: np.ndarray) -> np.ndarray:
        """int64[frames, n]: for each frame the largest of the `extents` [frames, n] in its sample."""
        return np.maximum.reduceat(extents, self.first)[self.sample] if self.total else extents

    def mean(self, numbers: np.ndarray) -> np.ndarray:
        """float64[frames, n]: for each frame the mean of the `numbers` [frames, n] in its sample."""
        if not self.total:
            return numbers.astype(np.float64)
        means: np.ndarray = np.add.reduceat(numbers, self.first) / self.counts[:, None]
        return means[self.sample]

    def spread(self, addresses: np.ndarray, frame_bytes: np.ndarray) -> np.ndarray:
        """int64[frames]: the address of each frame, for samples at `addresses` with frames of `frame_bytes`."""
        frames: np.ndarray = addresses[self.sample] + frame_bytes[self.sample] * self.number
        return frames


def is_sequence(batch: Batch) -> bool:
    """Whether the first dimension counts frames."""
    return batch.layout[:1] == "F"


def agreed(inputs: Iterable[tuple[str, Batch]], arguments: Iterable[tuple[str, Batch]], expand: bool) -> Frames | None:
    """The frames of the sequences among named batches; None if there is no sequence.

    Inputs must have equal numbers of frames; arguments have as many frames, or one. Without a sequence among the inputs, arguments have one
    frame per sample, or any number if they `expand` the inputs. SampleError if numbers differ, and for samples without frames.
    """
    counts, name_of, fixed = None, "the input", False
    for given, is_input in ((inputs, True), (arguments, False)):
        for name, batch in given:
            if not is_sequence(batch):
                continue
            own = batch.shapes[:, 0]
            if (own == 0).any():
                raise SampleError(int(np.flatnonzero(own == 0)[0]), f"{name} has no frames; at least one is needed")
            if counts is None and not is_input and not expand:
                counts, fixed = np.ones(len(own), np.int64), True
            if counts is None:
                counts, name_of, fixed = own, name, is_input
            one = np.zeros(len(own), bool) if is_input else (own == 1) | ((counts == 1) & (not fixed))
            wrong = (own != counts) & ~one
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise SampleError(i, f"{name} has {int(own[i])} frames, {name_of} has {int(counts[i])}: the numbers must match")
            counts = np.maximum(counts, own)
    return None if counts is None else Frames(counts)


def named_arguments(arguments: Arguments) -> list[tuple[str, Batch]]:
    """The argument inputs of an operator."""
    return [(f"the argument `{name}`", arguments.batch(name)) for name in arguments.spec.argument_inputs if arguments.is_input(name)]


def unfolded(batch: Batch, frames: Frames) -> Batch:
    """Values known while planning, frame by frame. Values that are no sequence, or a sequence of one frame, are repeated."""
    sizes, shapes, layout = np.zeros(len(batch), np.int64), batch.shapes[frames.sample], batch.layout
    if is_sequence(batch):
        alone = batch.shapes[:, 0] == 1
        sizes = np.where(alone, 0, batch.sizes() // np.maximum(batch.shapes[:, 0], 1))
        shapes, layout = shapes[:, 1:], layout[1:]
    made = Batch(shapes, batch.dtype, layout, frames.spread(batch.addresses, sizes), batch.memory_owner)
    if batch.values is not None:  # equal samples
        number = (np.where(alone[frames.sample], 0, frames.number),) if is_sequence(batch) else ()
        made.values = batch.values[(frames.sample, *number)]
    elif frames.total and (shapes == shapes[0]).all():
        made.values = np.stack([made.sample(k) for k in range(frames.total)])
    return made


def unfolded_arguments(arguments: Arguments, frames: Frames) -> Arguments:
    """An operator's arguments for a batch of frames."""
    inputs = {name: unfolded(arguments.batch(name), frames) for name in arguments.spec.argument_inputs if arguments.is_input(name)}
    return Arguments(arguments.spec, inputs, frames.total)


def folded(values: np.ndarray, frames: Frames, layout: str) -> Batch:
    """Results known while planning as sequences: `values` [frames, ...]."""
    values = np.ascontiguousarray(values)
    if len(frames.counts) and (frames.counts == frames.counts[0]).all():
        return Batch.from_values(values.reshape(len(frames.counts), -1, *values.shape[1:]), "F" + layout)
    flat = Batch.from_values(values, layout)
    shapes = np.empty((len(frames.counts), values.ndim), np.int64)
    shapes[:, 0], shapes[:, 1:] = frames.counts, values.shape[1:]
    return Batch(shapes, flat.dtype, "F" + layout, flat.addresses[frames.first], values, contiguous=True)


class PerFrameArguments(Operator):
    """Base class of operators whose argument inputs may be per frame. They implement :meth:`plan_samples`.

    The first input is data; further inputs are known while planning (except with `late_inputs`). All frames of a sample have results of the
    same shape.
    """

    repeatable = True
    expands: ClassVar[bool] = False
    """Whether arguments of several frames turn inputs without frames into sequences."""
    late_inputs: ClassVar[bool] = False
    """Whether the contents of further inputs are known only when the steps run."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if type(self).plan is PerFrameArguments.plan and (spec.argument_inputs or spec.input_count > 1):
            from ...compiled.frame_steps import frames_step

            frames_step.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        named = named_arguments(arguments)
        if not any(is_sequence(batch) for batch in (*inputs[1:], *(batch for _, batch in named))):
            return self.plan_samples(inputs, arguments, None)
        source = _labelled(inputs[0], self.data_layout(inputs[0]))
        frames = agreed([(f"input {k}", batch) for k, batch in enumerate([source, *inputs[1:]])], named, self.expands)
        assert frames is not None
        more = [_pieces(batch, frames) if self.late_inputs else unfolded(batch, frames) for batch in inputs[1:]]
        try:
            if not self.expands and not any(map(is_sequence, (source, *inputs[1:]))):
                return self.plan_samples(inputs, unfolded_arguments(arguments, frames), None)  # images, and arguments of one frame
            piece = _pieces(source, frames)
            planned = self.plan_samples([piece, *more], unfolded_arguments(arguments, frames), frames)
        except SampleError as error:
            error.sample = int(frames.sample[error.sample])
            raise
        late = list(zip(inputs[1:], more, strict=True)) if self.late_inputs else []
        return _folded_plan(planned, source, piece, frames, late)

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        """Like :meth:`Operator.plan`, without per-frame values. With `frames` the samples are frames of sequences."""
        raise TypeError("abstract")

    def data_layout(self, source: Batch) -> str:
        """The layout of the first input, or the assumed one."""
        return self.layout_of(source)


def _labelled(source: Batch, layout: str) -> Batch:
    return source if source.layout == layout else Batch.alias(source, source.shapes, source.dtype, layout)


def _pieces(source: Batch, frames: Frames) -> Batch:
    """The frames of data, as samples. They have no addresses, because addresses are known only when the steps run."""
    shapes, layout = source.shapes[frames.sample], source.layout
    if is_sequence(source):
        shapes, layout = shapes[:, 1:], layout[1:]
    return Batch(shapes, source.dtype, layout, device=source.device)


Late: TypeAlias = "list[tuple[Batch, Batch]]"
"""Further inputs, and their frames."""


def _folded_plan(planned: Planned, source: Batch, piece: Batch, frames: Frames, late: Late) -> Planned:
    """The plan for sequences, made from the plan for their frames."""
    (flat,) = planned.outputs
    shapes = np.concatenate([frames.counts[:, None], flat.shapes[frames.first]], axis=1)
    assert (flat.shapes == shapes[frames.sample, 1:]).all(), "frames of a sequence have one shape"
    layout = "F" + flat.layout if flat.layout else ""
    output = Batch(shapes, flat.dtype, layout, device=flat.device, source_info=source.source_info)
    return Planned([output], [_frame_by_frame(step, source, piece, output, flat, frames, late) for step in planned.steps])


def _frame_bytes(batch: Batch, frames: Frames) -> np.ndarray:
    """Bytes from one frame of an input to the next, int64[samples]; 0 if all frames have the same data."""
    if not is_sequence(batch):
        return np.zeros(len(batch), np.int64)
    own = batch.shapes[:, 0]
    return np.ascontiguousarray(np.where(own == frames.counts, batch.sizes() // np.maximum(own, 1), 0))


def _frame_by_frame(inner: Step, source: Batch, piece: Batch, output: Batch, flat: Batch, frames: Frames, late: Late) -> Step:
    from ...compiled.frame_steps import frames_step

    source_bytes, out_bytes = _frame_bytes(source, frames), np.ascontiguousarray(output.sizes() // frames.counts)
    late_bytes = [_frame_bytes(batch, frames) for batch, _ in late]
    records = LATE_INPUT.zeros(len(late))
    for record, (batch, pieces), size in zip(records, late, late_bytes):
        record[:] = [address_of(array) for array in LATE_INPUT.entries(inputs=batch.addresses, bytes=size, frames=pieces.addresses)]
    first, counts = np.ascontiguousarray(frames.first), np.ascontiguousarray(frames.counts)
    table, keep = FRAMES.make(
        function=inner.function, context=inner.context, firsts=first, counts=counts, inputs=source.addresses, input_bytes=source_bytes,
        input_frames=piece.addresses, outputs=output.addresses, output_bytes=out_bytes, output_frames=flat.addresses,
        others=len(late), other_inputs=records,
    )  # fmt: skip

    def explain(code: int, text: str, sample: int) -> str:
        return inner.explain(code, text, int(first[sample]))

    def launches() -> list[Launch]:
        piece.addresses[:] = frames.spread(source.addresses, source_bytes)
        flat.addresses[:] = frames.spread(output.addresses, out_bytes)
        for (batch, pieces), size in zip(late, late_bytes):
            pieces.addresses[:] = frames.spread(batch.addresses, size)
        assert inner.launches is not None
        return inner.launches()

    return replace(
        inner, function=frames_step.address, context=table, explain=explain, keep=[*keep, late, late_bytes], inner=inner,
        launches=None if inner.launches is None else launches,
    )  # fmt: skip

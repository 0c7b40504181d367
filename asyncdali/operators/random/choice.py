"""random.choice: elements of a list, or numbers below a bound, picked at random."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of
from ...compiled.tables import SAMPLES, Field, Table
from ..accepts import ANY_RANK, ANYTHING, CHOSEN, ELEMENTS, LIKE, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, refuse_where, register
from .random import StreamOperator

SUM_TOLERANCE = 1e-4
"""Tolerance for the sum of probabilities, which must be 1."""

CHOICE = Table(
    "CHOICE",
    Field("stream", "uint64", "where the draws begin, see StreamPosition", ("key", "hi", "lo", "phase")),
    SAMPLES,
    Field("kind", "int64", "the element type of scalar inputs, below which is drawn (a DALIDataType); -1: inputs are lists"),
    Field("picks", "int64[samples]", "elements to draw"),
    Field("populations", "int64[samples]", "elements to choose from"),
    Field("inputs", "addresses", "of the lists"),
    Field("sizes", "int64[samples]", "bytes of one element"),
    Field("shared", "int64", "1: all draws of a sample come from one stream; 0: each has its own"),
    Field("cumulated", "float64[weights]", "cumulated weights of all samples; 0: all elements are as likely"),
    Field("firsts", "int64[samples + 1]", "the place of each sample's first weight"),
    Field("output", "address", "of the first sample; the others follow it"),
)


@register
class Choice(StreamOperator):
    reads = (0,)
    eager = True
    schema = Schema(
        name="random.choice",
        doc="""Random elements of a list.

        The first input is a list (or a tensor, of which slices along its first axis are picked), or a scalar n: it stands for
        0..n - 1. Elements are drawn independently, with equal probability unless `p` is given. The shape of the result is `shape`, or
        that of the second input, or one element; its type is that of the first input.
        Streams are DALI's, bit for bit, for the same seed.""",
        accepts=(Input(ELEMENTS, name="elements", ranks=ANY_RANK), ANYTHING),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        inputs=(1, 2),
        input_names=("a", "shape_like"),
        metadata_inputs=(1,),
        seeded=True,
        args=(
            Arg("p", "float_list", None, "Probability of each element; their sum is 1.", tensor=True, stream=True),
            Arg("shape", "int_list", None, "Shape of the result, in elements.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.input_count == 2 and spec.given("shape"):
            raise ValueError("give the shape either by an input or by the argument `shape`, not both")
        from .choice_kernels import draw_choices

        self._kernel = draw_choices
        self._kernel.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        shapes = self._shapes(inputs, arguments)
        picks = np.ascontiguousarray(shapes.prod(axis=1), np.int64)
        scalar = source.ndim == 0
        populations = self._bounds(source) if scalar else np.ascontiguousarray(source.shapes[:, 0], np.int64)
        what, empty = "the value of the scalar" if scalar else "the number of elements", (populations < 1) & (picks > 0)
        refuse_where(empty, lambda i: f"the input is empty: {what} is {int(populations[i])}; at least 1 is needed")
        cumulated, firsts = self._weights(populations, arguments)
        result = Batch(np.concatenate([shapes, source.shapes[:, 1:]], axis=1), source.dtype, self._layout(source, shapes))
        result.reserve(self.environment.allocate)
        sizes = np.ascontiguousarray(source.shapes[:, 1:].prod(axis=1) * source.itemsize, np.int64)
        addresses, position = np.ascontiguousarray(source.addresses), iteration.position
        key, hi, lo, phase = np.array([position.key, position.hi, position.lo, position.phase], np.uint64).view(np.int64).tolist()
        table, keep = CHOICE.make(
            stream_key=key,
            stream_hi=hi,
            stream_lo=lo,
            stream_phase=phase,
            samples=len(source),
            kind=int(source.dtype) if scalar else -1,
            picks=picks,
            populations=populations,
            inputs=addresses,
            sizes=sizes,
            shared=source.ndim > 1,
            cumulated=0 if cumulated is None else cumulated,
            firsts=firsts,
            output=0 if not len(source) else int(result.addresses[0]),
        )
        self._kernel(address_of(table))
        del keep
        return Planned([result])

    @staticmethod
    def _layout(source: Batch, shapes: np.ndarray) -> str:
        """The input's layout if the number of axes is the same. Without its first letter if single elements are picked."""
        return source.layout[1 - shapes.shape[1] :] if shapes.shape[1] < 2 else ""

    @staticmethod
    def _shapes(inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """int64[samples, ndim] of the picks."""
        if len(inputs) == 2:
            return inputs[1].shapes
        if not arguments.given("shape"):
            return np.empty((arguments.count, 0), np.int64)
        shapes = arguments.vectors("shape", None, np.int64)
        refuse_where(shapes < 0, lambda i: f"shape {tuple(shapes[i])} has a negative extent")
        return shapes

    @staticmethod
    def _bounds(source: Batch) -> np.ndarray:
        """The scalars of a batch, as int64[samples]."""
        if storage_dtype(source.dtype).kind not in "iu":
            raise ValueError(f"the first input is a scalar n for choices from 0 to n - 1; n must be an integer, got {source.dtype.name}")
        if source.values is not None:
            return source.values.reshape(-1).astype(np.int64)
        return np.array([source.sample(i).item() for i in range(len(source))], np.int64)

    @staticmethod
    def _weights(populations: np.ndarray, arguments: Arguments) -> tuple[np.ndarray | None, np.ndarray]:
        """Cumulative weights of all samples, float64, and the index of each sample's first weight, int64[samples + 1]."""
        if not arguments.given("p"):
            return None, np.zeros(len(populations) + 1, np.int64)
        if arguments.is_input("p"):
            batch = arguments.batch("p")
            rows = [batch.sample(i).reshape(-1) for i in range(len(batch))]
        else:
            rows = [np.asarray(arguments.constant("p"))] * len(populations)
        cumulated = []
        for i, (row, population) in enumerate(zip(rows, populations.tolist(), strict=True)):
            weights = row.astype(np.float32).astype(np.float64)
            if len(weights) != population:
                raise SampleError(i, f"`p` has {len(weights)} weights for {population} elements")
            if not ((weights >= 0) & (weights <= 1)).all() or abs(weights.sum() - 1) > SUM_TOLERANCE:
                raise SampleError(i, f"`p` must be probabilities whose sum is 1, got {weights.tolist()} with a sum of {weights.sum():g}")
            ends = np.cumsum(weights / np.cumsum(weights)[-1])
            ends[-1] = 1.0
            cumulated.append(ends)
        firsts = np.cumsum([0, *(len(row) for row in cumulated)]).astype(np.int64)
        return np.concatenate(cumulated) if cumulated else np.empty(0), firsts

"""sequence_rearrange: reorder frames."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import ELEMENTS, SEQUENCES, Input, Output, at_least
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from ..kernel_operator import KernelOperator, Kernels, Names
from ..moves.pieces import like


@register
class SequenceRearrange(KernelOperator):
    kernel_module = "sequence_rearrange_kernels"
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="sequence_rearrange",
        doc="""Reorders the frames of sequences: ``output[k] = input[new_order[k]]``.

        Frames may be repeated or left out. The input's layout begins with F, or there is none.""",
        accepts=(Input(ELEMENTS, SEQUENCES, "sequences", at_least(1)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("new_order", "int_list", REQUIRED, "Index of the input's frame for each of the output's.", tensor=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._constant = np.array(spec.constants.get("new_order", []), np.int64)

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.frame_copy_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        given = arguments.is_input("new_order")
        orders = self._orders(source, arguments) if given else [self._order(source)]
        counts = np.array([len(order) for order in orders], np.int64)
        shapes = source.shapes.copy()
        shapes[:, 0] = counts
        output = like(source, shapes)
        frames = np.concatenate([np.empty(0, np.int64), *orders]).astype(np.int64, copy=False)
        frame_bytes = np.multiply.reduce(source.shapes[:, 1:], 1) * source.itemsize
        per_sample = (np.cumsum(counts) - counts, counts) if given else (None, None)
        return Planned([output], [self.kernels.make_frame_copy_step(source, output, frame_bytes, frames, *per_sample)])

    def _order(self, source: Batch) -> np.ndarray:
        """The frames of all samples: a constant, checked."""
        order, fewest = self._constant, source.shapes[:, 0]
        wrong = (fewest <= order.max()) if len(order) and order.min() >= 0 else np.ones(len(source), bool)
        if wrong.any():
            i = int(np.argmax(wrong))
            self._check(i, order, int(fewest[i]))
        return order

    @classmethod
    def _orders(cls, source: Batch, arguments: Arguments) -> list[np.ndarray]:
        """The frames of each sample, checked."""
        batch = arguments.batch("new_order")
        orders = [np.atleast_1d(batch.sample(i)) for i in range(len(batch))]
        for i, (order, frames) in enumerate(zip(orders, source.shapes[:, 0].tolist(), strict=True)):
            cls._check(i, order, frames)
        return orders

    @staticmethod
    def _check(i: int, order: np.ndarray, frames: int) -> None:
        if order.ndim != 1 or not len(order):
            raise SampleError(i, f"`new_order` must be a list of at least one index, got shape {order.shape}")
        if order.min() < 0 or order.max() >= frames:
            raise SampleError(i, f"`new_order` is {order.tolist()}; the input has the frames 0 to {frames - 1}")

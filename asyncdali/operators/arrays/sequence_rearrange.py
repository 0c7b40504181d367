"""sequence_rearrange: frames in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ELEMENTS, SEQUENCES, Input, Output, at_least
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from .strided import Pieces, dense_strides, like


@register
class SequenceRearrange(Operator):
    """See the schema."""

    on_cuda = True
    schema = Schema(
        name="sequence_rearrange",
        doc="""Frames of sequences in another order: ``output[k] = input[new_order[k]]``.

        Frames may be repeated or left out. The input's layout begins with F, or there is none.""",
        accepts=(Input(ELEMENTS, SEQUENCES, "sequences", at_least(1)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("new_order", "int_list", REQUIRED, "Index of the input's frame for each of the output's.", tensor=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import strided_kernels

        self._kernels: Any = strided_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.copy_step.compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        orders = self._orders(source, arguments)
        shapes = source.shapes.copy()
        shapes[:, 0] = [len(order) for order in orders]
        output = like(source, shapes)
        pieces, strides = Pieces(output), dense_strides(source.shapes, source.itemsize)
        frame = np.ones((len(source), 1), np.int64)
        extents = np.concatenate([frame, source.shapes[:, 1:]], axis=1)
        for k in range(max(map(len, orders), default=0)):
            there = np.array([k < len(order) for order in orders])
            index = np.array([order[k] if k < len(order) else 0 for order in orders])
            pieces.add(
                source, np.where(there[:, None], extents, 0), strides, index * strides[:, 0], target_offset=k * pieces.targets[:, 0]
            )
        return Planned([output], [pieces.step(self._kernels.copy_step)])

    @staticmethod
    def _orders(source: Batch, arguments: Arguments) -> list[np.ndarray]:
        """The frames of each sample, checked."""
        if arguments.is_input("new_order"):
            batch = arguments.batch("new_order")
            orders = [np.atleast_1d(batch.sample(i)) for i in range(len(batch))]
        else:
            orders = [np.array(arguments.constant("new_order"), np.int64)] * len(source)
        for i, (order, frames) in enumerate(zip(orders, source.shapes[:, 0].tolist(), strict=True)):
            if order.ndim != 1 or not len(order):
                raise SampleError(i, f"`new_order` must be a list of at least one index, got shape {order.shape}")
            if order.min() < 0 or order.max() >= frames:
                raise SampleError(i, f"`new_order` is {order.tolist()}; the input has the frames 0 to {frames - 1}")
        return orders

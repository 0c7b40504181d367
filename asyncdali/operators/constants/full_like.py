"""full_like: an input, broadcast to the shape of another input."""

from __future__ import annotations

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import DATA, Output
from ..base import Arguments, Iteration, Planned, Schema, register
from .broadcasts import Broadcast


@register
class FullLike(Broadcast):
    repeatable = True
    schema = Schema(
        name="full_like",
        doc="The second input, broadcast to the shape of the first input, with the first input's type (converted as by `cast`) and layout.",
        accepts=(DATA,),
        gives=(Output(),),
        inputs=(2, 2),
        input_names=("data_like", "fill_value"),
        metadata_inputs=(0,),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        like, data = dtypes
        if like is not None and data is not None:
            self._step(data, like).compile()
        return [like]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return self._repeated(inputs[1], inputs[0].shapes, inputs[0].dtype, inputs[0].layout)

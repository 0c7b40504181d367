"""random.coin_flip."""

from __future__ import annotations

import numpy as np

from ...batch import storage_dtype
from ...sampling import random_streams
from ...sampling.random_streams import BatchDraw
from ...types import DALIDataType
from ..accepts import ANYTHING, CHOSEN, Output, argument
from ..base import Arg, Arguments, Schema, register
from .random import SHAPE_ARGS, RandomOperator


@register
class CoinFlip(RandomOperator):
    schema = Schema(
        name="random.coin_flip",
        aliases=("coin_flip",),
        doc="""Random 0 and 1: 1 with the given probability.

        The optional input gives the shape of each sample. Streams are DALI's, bit for bit, for the same seed.""",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.INT32), CHOSEN, ""),),
        inputs=(0, 1),
        input_names=("shape_like",),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("probability", "float", 0.5, "Probability of 1.", tensor=True, stream=True),
            *SHAPE_ARGS,
        ),
    )
    default_dtype = DALIDataType.INT32

    def _compile(self) -> None:
        random_streams.load_kernels().draw_coins.compile()

    def _draw(self, arguments: Arguments, samples: int, counts: int | np.ndarray) -> BatchDraw:
        chance = self._parameter(arguments, "probability")
        return random_streams.coin_draw(samples, chance, dtype=storage_dtype(self.dtype), counts=counts)

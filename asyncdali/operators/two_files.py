"""The shared part of operators in two files: a module with the declaration and the function, and a CUDA source with the module's name.

`elements.py` is for functions of one element, `samples.py` for functions of one sample.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .base import Arguments, Operator


class TwoFileOperator(Operator):
    """An operator whose table, step, launch and tests follow from its declaration."""

    numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the float arguments, in the order in which the function reads them."""

    cuda_source: ClassVar[Path]
    """The CUDA source beside the module. If the file exists, the operator runs on GPUs."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.cuda_source = Path(str(sys.modules[cls.__module__].__file__)).with_suffix(".cu")
        cls.on_cuda = cls.cuda_source.exists()

    def numbers_of(self, arguments: Arguments, samples: int) -> np.ndarray:
        """The values of the arguments in `numbers`, float32[samples, arguments]; one column of 0 if there are none."""
        table = np.zeros((samples, max(1, len(self.numbers))), np.float32)
        for column, name in enumerate(self.numbers):
            table[:, column] = arguments.scalars(name)
        return table

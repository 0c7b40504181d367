"""Base of operators that move elements without changing them."""

from __future__ import annotations

from ..base import Planned
from ..kernel_operator import KernelOperator, Kernels, Names
from .pieces import Pieces


class MovingOperator(KernelOperator):
    """An operator whose output is made of pieces of inputs."""

    kernel_module = "pieces_kernels"

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.copy_step]

    def copied(self, pieces: Pieces) -> Planned:
        """The plan that copies the pieces."""
        return Planned([pieces.output], [pieces.step(self.kernels.copy_step)])

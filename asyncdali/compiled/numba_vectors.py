"""Numba's type of vectors, and its operators. Imported when a kernel with vectors is compiled."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from .kinds import Vector, boolean
from .vectors import ARITHMETIC, COMPARISONS, lower_operation, vector_ir


class VectorType(types.Type):
    """Numba's type of a :class:`~asyncdali.compiled.kinds.Vector`."""

    def __init__(self, kind: Vector):
        self.kind = kind
        super().__init__(kind.name)


@register_default(VectorType)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: object, own: VectorType):
        super().__init__(manager, own, vector_ir(own.kind))


def _declare(symbol: object) -> None:
    @infer_global(symbol)
    class _Operation(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != 2 or kws or args[0] != args[1] or not isinstance(args[0], VectorType):
                return None
            return signature(Vector(boolean, args[0].kind.count).of_numba if symbol in COMPARISONS else args[0], *args)

    @lower_builtin(symbol, VectorType, VectorType)
    def _lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return lower_operation(builder, symbol, sig.args[0].kind, *args)


for _symbol in (*ARITHMETIC, *COMPARISONS):
    _declare(_symbol)

"""preemphasis_filter: each sample less a part of the one before."""

from __future__ import annotations

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register
from .signal_types import SIGNAL_TYPES

_BORDERS = ("zero", "clamp", "reflect")


@register
class PreemphasisFilter(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="preemphasis_filter",
        doc="""Emphasises high frequencies: ``output[t] = input[t] - preemph_coeff * input[t - 1]``.

        Computed in FLOAT, rounded and saturated to `dtype`. Samples of several dimensions are treated as one row.""",
        accepts=(Input(SIGNAL_TYPES, name="sound", ranks=ANY_RANK),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("border", "str", "clamp", 'Value before the first sample: "zero", "clamp" (the first sample), "reflect" (the second).'),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("preemph_coeff", "float", 0.97, "The coefficient.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("border") not in _BORDERS:
            raise ValueError(f"Border mode {spec.constant('border')!r} is not supported; supported are {', '.join(_BORDERS)}")
        wanted = spec.constant("dtype")
        if wanted not in SIGNAL_TYPES:
            raise ValueError(f"Unsupported output type: {wanted.name}; supported are {', '.join(kind.name for kind in SIGNAL_TYPES)}")
        from . import signal_kernels

        self._kernels = signal_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source, wanted = DALIDataType.FLOAT if dtypes[0] is None else dtypes[0], self.spec.constant("dtype")
        if source in SIGNAL_TYPES:
            self._kernels.preemphasis_step(storage_dtype(source).name, storage_dtype(wanted).name).compile()
        return [wanted]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = Batch(source.shapes, self.spec.constant("dtype"), source.layout, device=source.device, source_info=source.source_info)
        border = _BORDERS.index(self.spec.constant("border"))
        return Planned([output], [self._kernels.make_preemphasis_step(source, output, arguments.scalars("preemph_coeff"), border)])

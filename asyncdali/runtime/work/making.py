"""Makes operators and segments from a plan, for a session's ``build()`` and for an engine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import operator_error
from ...graph.peephole import enabled
from ...graph.peephole.heads import mark_scans
from ...graph.plan import PlannedOperator, Segment
from ...operators.base import Environment, Operator, check_access
from ...types import DALIDataType
from .segments import BuiltOperator, BuiltSegment

if TYPE_CHECKING:
    from ...device.cuda.device import CudaStream


class Seeds:
    """The table of automatic operator seeds. It is made when the first entry is read."""

    def __init__(self, seed: int | None):
        self.seed = secrets.randbits(62) if seed is None else int(seed)
        self._table: tuple[int, ...] | None = None

    def entry(self, index: int) -> int:
        if self._table is None:
            from ...sampling.seeds import seed_table

            self._table = seed_table(self.seed)
        return self._table[index]


def check_kernels(operators: Sequence[PlannedOperator]) -> None:
    """Raise NotImplementedError that names the GPU operators which a CUDA device cannot run."""
    missing = [planned for planned in operators if planned.backend != "cpu" and not planned.kind.on_cuda]
    if missing:
        names = ", ".join(sorted({planned.spec.schema.name for planned in missing}))
        error = NotImplementedError(
            f"no CUDA kernels yet for: {names}. Give them CPU inputs, or set ASYNCDALI_DEVICE=host to run all GPU operators of this "
            "process on the host device."
        )
        raise operator_error(missing[0], error, None) from error


def make_operators(operators: Sequence[PlannedOperator], environment: Environment, made: list[BuiltOperator]) -> None:
    """Append the operators to `made`. All kernels whose types are known are compiled (or loaded) here, on the building thread.

    After an error, `made` has the operators that must be closed.
    """
    from ...compiled import driver, places, volumes

    for function in (driver.run_job, places.lay_out, volumes.volume):
        function.compile()
    dtypes: dict[int, DALIDataType | None] = {}
    for planned in operators:
        operator = _make(planned, environment)
        operator.neighbours = planned.neighbours
        made.append(BuiltOperator(planned, operator))
        try:
            inferred = operator.infer([dtypes[edge] for edge in planned.inputs])
        except Exception as error:
            raise operator_error(planned, error, None) from error
        dtypes.update(zip(planned.outputs, inferred, strict=True))
    if enabled("heads"):
        mark_scans([(built.planned, built.operator) for built in made])


MakeSegment: TypeAlias = Callable[[Segment, list[BuiltOperator]], BuiltSegment]


def make_segments(segments: Sequence[Segment], operators: Sequence[BuiltOperator], make: MakeSegment) -> list[BuiltSegment]:
    """The segments, each with those of the operators that belong to it."""
    built = {id(item.planned): item for item in operators}
    return [make(segment, [built[id(planned)] for planned in segment.operators]) for segment in segments]


def on_stream(stream: CudaStream) -> MakeSegment:
    """The function that makes the segments of a caller that runs them by itself: mixed and gpu ones queue their work on `stream`."""
    from ..gpu.device_segments import DeviceSegment

    def make(segment: Segment, own: list[BuiltOperator]) -> BuiltSegment:
        return BuiltSegment(segment, own) if segment.backend == "cpu" else DeviceSegment(segment, own, stream)

    return make


def _make(planned: PlannedOperator, environment: Environment) -> Operator:
    try:
        check_access(planned.spec, environment.access)
        return planned.kind(planned.spec, environment)
    except Exception as error:
        raise operator_error(planned, error, None) from error

"""DALI's result for one operator on the CPU, beside ours from ``helpers.operators``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from asyncdali import fn
from asyncdali.errors import SampleError

from . import operators
from .pipelines import pipeline_of

_ENUMS = ("DALIDataType", "DALIInterpType", "DALIImageType")


def dali_outputs(
    name: str, inputs: Sequence[Sequence[np.ndarray]], layouts: Sequence[str], per_sample: dict[str, Any] | None = None, **constants: Any
) -> list[list[np.ndarray]]:
    """All outputs of DALI's operator `name` over a batch: ``inputs[k][i]`` is sample i of input k; `per_sample` are argument inputs."""
    dali, fn = importlib.import_module("nvidia.dali"), importlib.import_module("nvidia.dali.fn")
    types = importlib.import_module("nvidia.dali.types")
    count = len(inputs[0]) if inputs else len(next(iter((per_sample or {}).values())))
    given = {
        key: getattr(types, type(value).__name__)(int(value)) if type(value).__name__ in _ENUMS else value
        for key, value in constants.items()
    }
    operator = fn
    for part in name.split("."):
        operator = getattr(operator, part)

    @dali.pipeline_def(batch_size=count, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        nodes = [fn.external_source(_feeder(samples), layout=layout or None) for samples, layout in zip(inputs, layouts, strict=True)]
        named = {key: fn.external_source(_feeder(values)) for key, values in (per_sample or {}).items()}
        made = operator(*nodes, **named, **given)
        return tuple(made) if isinstance(made, (list, tuple)) else made

    built = pipeline()
    built.build()
    return [[np.array(output.at(i)) for i in range(count)] for output in built.run()]


def our_outputs(
    name: str, inputs: Sequence[Sequence[np.ndarray]], layouts: Sequence[str], per_sample: dict[str, Any] | None = None, **constants: Any
) -> list[list[np.ndarray]]:
    """The same outputs from asyncdali, through a pipeline."""
    count = len(inputs[0]) if inputs else len(next(iter((per_sample or {}).values())))
    operator: Any = fn
    for part in name.split("."):
        operator = getattr(operator, part)

    def graph() -> Any:
        nodes = [fn.external_source(_feeder(samples), layout=layout or None) for samples, layout in zip(inputs, layouts, strict=True)]
        made = operator(*nodes, **{key: fn.external_source(_feeder(values)) for key, values in (per_sample or {}).items()}, **constants)
        return tuple(made) if isinstance(made, (list, tuple)) else made

    with pipeline_of(graph, batch_size=count) as pipeline:
        return [[np.array(output.at(i)) for i in range(count)] for output in pipeline.run()]


def dali_output(name: str, samples: Sequence[np.ndarray], layout: str = "", per_sample: Any = None, **constants: Any) -> list[np.ndarray]:
    """The first output of an operator with one input."""
    return dali_outputs(name, [samples], [layout], per_sample, **constants)[0]


def _feeder(values: Any) -> Any:
    return lambda: list(values)


def assert_both_refuse(name: str, samples: Sequence[np.ndarray], layout: str = "", **constants: Any) -> None:
    """Both libraries raise an error. Ours is of a type that the runtime reports with the operator and the user's line."""
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        dali_output(name, samples, layout, **constants)
    with pytest.raises((SampleError, ValueError, TypeError)):
        operators.run(name, list(samples), layout, **constants)


def same(theirs: list[np.ndarray], ours: list[np.ndarray]) -> None:
    """Equal shapes, types and bits."""
    assert [a.shape for a in theirs] == [b.shape for b in ours]
    for a, b in zip(theirs, ours, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def errors(theirs: list[np.ndarray], ours: list[np.ndarray]) -> np.ndarray:
    """Absolute differences of all elements, float64."""
    assert [a.shape for a in theirs] == [b.shape for b in ours]
    assert theirs[0].dtype == ours[0].dtype
    return np.concatenate([np.abs(a.astype(np.float64) - b.astype(np.float64)).ravel() for a, b in zip(theirs, ours, strict=True)])

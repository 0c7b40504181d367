"""DALI's debug mode without a CUDA driver.

The part of DALI's debug mode that runs one operator at a time needs a CUDA driver. Here a pipeline of one operator replaces this part.
DALI's own debug mode decides on the class and the arguments (including the seed). Everything else is DALI's code: matching of calls, seeds,
splitting for conditionals, batch sizes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import nvidia.dali as dali
import pytest
from nvidia.dali import _debug_mode


class _OneOperator:
    """An operator of a debug pipeline: runs on the given data."""

    def __init__(self, manager: Any, batch_size: int):
        self._manager, self._batch_size = manager, batch_size
        self._pipe: Any = None

    def run(self, inputs: list[Any], arguments: dict[str, Any]) -> list[Any]:
        if self._manager.op_helper.schema_name == "_conditional__Merge":  # the inputs differ in size, which sources do not allow
            parts = [iter(list(part)) for part in inputs]
            chosen = [next(parts[0] if bool(np.asarray(taken)) else parts[1]) for taken in arguments["predicate"]]
            return [dali.tensors.TensorListCPU([np.asarray(sample) for sample in chosen])]
        if self._pipe is None:  # on another thread, where no pipeline function is active
            with ThreadPoolExecutor(1) as other:
                other.submit(self._build, len(inputs), list(arguments)).result()
        for k, data in enumerate(inputs):
            self._pipe.feed_input(f"input{k}", data)
        for name, data in arguments.items():
            self._pipe.feed_input(f"argument_{name}", data)
        return list(self._pipe.run())

    def _build(self, count: int, names: list[str]) -> None:
        # One iteration at a time, so that no draws are made ahead.
        pipe = self._pipe = dali.Pipeline(self._batch_size, 1, None, prefetch_queue_depth=1, exec_async=False, exec_pipelined=False)
        with pipe:
            nodes = [dali.fn.external_source(name=f"input{k}") for k in range(count)]
            given = {name: dali.fn.external_source(name=f"argument_{name}") for name in names}
            made = type(self._manager.op_helper)(**self._manager._init_args)(*nodes, **given)
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else (made,)))


class _Runner:
    """Replaces the object that runs operators in DALI's debug mode."""

    def __init__(self, batch_size: int, *_: Any):
        self.batch_size = batch_size
        self.managers: dict[int, Any] = {}
        self._operators: dict[int, _OneOperator] = {}

    def AddMultipleOperators(self, spec: Any, logical_ids: list[int]) -> None:
        """Does nothing: operators are made at their first run."""

    def Shutdown(self) -> None:
        """The end of the pipeline."""
        self._operators.clear()

    def RunOperatorCPU(self, logical_id: int, inputs: list[Any], arguments: dict[str, Any], size: int) -> list[Any]:
        operator = self._operators.get(logical_id)
        if operator is None:
            operator = self._operators[logical_id] = _OneOperator(self.managers[logical_id], self.batch_size)
        return operator.run(list(inputs), arguments)


@pytest.fixture
def dali_debug_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """DALI's pipelines with ``debug=True`` run on this machine (CPU operators)."""
    create = _debug_mode._PipelineDebug._create_op

    def remembered(self: Any, op_class: Any, op_name: str, key: Any, *rest: Any) -> None:
        create(self, op_class, op_name, key, *rest)
        manager = self._operators[key]
        self._pipe.managers.update(dict.fromkeys(manager.logical_ids, manager))

    monkeypatch.setattr(_debug_mode._b, "PipelineDebug", _Runner)
    monkeypatch.setattr(_debug_mode._PipelineDebug, "_create_op", remembered)

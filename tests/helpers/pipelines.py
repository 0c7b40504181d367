"""Small pipelines, their results, and separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali import Pipeline

_TESTS = Path(__file__).resolve().parent.parent


def pipeline_of(graph: Callable[[], Any], **options: Any) -> Pipeline:
    """A pipeline of the nodes that `graph` returns: one output or a tuple of outputs."""
    pipeline = Pipeline(**{"batch_size": 3, "num_threads": 2, "seed": 1, **options})
    with pipeline:
        made = graph()
    pipeline.set_outputs(*(made if isinstance(made, tuple) else (made,)))
    return pipeline


def values(outputs: Any) -> list[Any]:
    """The outputs of `run` as nested lists."""
    return [[np.asarray(tensor).tolist() for tensor in batch.as_cpu()] for batch in outputs]


def outputs_of(graph: Callable[[], Any], iterations: int = 1, **options: Any) -> list[list[list[np.ndarray]]]:
    """Copies of the samples of a pipeline's first iterations: [iteration][output][sample]."""
    with pipeline_of(graph, **options) as pipeline:
        return [[[np.array(sample) for sample in output.as_cpu()] for output in pipeline.run()] for _ in range(iterations)]


def run_script(text: str, *args: Any, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter that finds the package and these helpers. Returns the finished process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_TESTS), str(_TESTS.parent)]), **environment}
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)

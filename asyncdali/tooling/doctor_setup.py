"""The input of the checks of ``asyncdali doctor``: a pipeline's options, sources and files, without building the pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph.plan import PlannedOperator
    from ..operators import Schema
    from ..options import PipelineOptions

_PLACES = ("file_root", "files", "file_list", "path", "paths", "index_path", "annotations_file", "filenames", "manifest_filepaths")


@dataclass
class MachineSetup:
    """The parts of a pipeline that depend on the machine. The defaults describe no pipeline.

    Attributes:
        engines, engine_start_method, num_threads, py_num_workers, py_start_method, py_callback_pickler, device_id: the options.
        operators: names of the operators that will run. `gpu`: whether one of them needs a GPU.
        sources: callbacks of the parallel sources by name.
        places: files and folders that readers read.
        planned: the operators of the plan; empty: unknown.
        proc, cgroups: folders in which the system describes this process.
    """

    num_threads: int = 0
    engines: int = 0
    engine_start_method: str = "fork"
    py_num_workers: int = 0
    py_start_method: str = "fork"
    py_callback_pickler: Any = None
    device_id: int | None = None
    operators: set[str] = field(default_factory=set)
    gpu: bool = False
    sources: dict[str, Any] = field(default_factory=dict)
    places: list[Path] = field(default_factory=list)
    planned: list[PlannedOperator] = field(default_factory=list)
    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")

    def schemas(self) -> list[Schema]:
        """The declarations of the operators, by name."""
        from ..operators import REGISTRY

        return [REGISTRY[name].schema for name in sorted(self.operators) if name in REGISTRY]


def setup_of_options(options: PipelineOptions, operators: set[str], parallel: bool) -> MachineSetup:
    """The part that ``build()`` knows without extra work. `parallel`: there are worker processes."""
    workers = options.py_num_workers  # an invalid value is refused later, where workers start
    return MachineSetup(
        num_threads=int(options.num_threads or 0), py_num_workers=workers if parallel and isinstance(workers, int) else 0,
        py_start_method=options.py_start_method, py_callback_pickler=options.py_callback_pickler, device_id=options.device_id,
        operators=operators, engines=options.engines, engine_start_method=options.engine_start_method,
    )  # fmt: skip


def places(constants: dict[str, Any]) -> list[Path]:
    """Files and folders that the constant arguments of an operator name."""
    root = constants.get("file_root")
    found = []
    for name in _PLACES:
        given = constants.get(name)
        values = given if isinstance(given, list) else [given]
        for value in values[:16]:
            if isinstance(value, (str, os.PathLike)) and os.fspath(value):
                found.append(Path(os.fspath(root), value) if root and name == "files" else Path(value))
    return found

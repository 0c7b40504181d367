"""io.file.read: files that the pipeline's own data names."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...batch import Batch
from ...errors import explained
from ...operators.accepts import ANY_RANK, Input, Output
from ...operators.base import (
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    Trait,
    no_explanation,
    register,
)
from ...types import DALIDataType
from ..base import REDIRECT_ARG, may_redirect
from ..containers.containers import BLOCK
from ..remote.prefetch import Fetches
from ..remote.remote import is_remote
from .contents import PathTexts, fetched_batch, whole_files
from .entries import REMOTE_ARG
from .file_tables import COPY_PATHS, OPEN_FILES, READ_DIRECT
from .reserved_memory import ExpectedSizes

_FEW = 1024
"""This number of paths is copied in less time than another thread takes to begin."""


class _Names(Sequence[str]):
    """Paths of a batch. Text is made on demand."""

    def __init__(self, block: np.ndarray, starts: np.ndarray):
        self._block, self._starts = block, starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: Any) -> str:
        start = int(self._starts[index])
        stop = start + int(np.argmin(self._block[start:] != 0))
        return os.fsdecode(self._block[start:stop].tobytes())


@register
class FileRead(Operator):
    schema = Schema(
        name="io.file.read",
        input_names=("filepaths",),
        doc="""Reads whole files whose paths come from the pipeline (1-D UINT8 or INT8 texts); output 1-D UINT8.

        Paths come from data, so only local files are allowed, and URLs only with `allow_remote_entries`.""",
        accepts=(Input((DALIDataType.UINT8, DALIDataType.INT8), name="paths", ranks=ANY_RANK),),
        gives=(Output(DALIDataType.UINT8, 1, ""),),
        args=(
            REMOTE_ARG,
            REDIRECT_ARG,
            Arg("dont_use_mmap", "bool", False, "Files may be empty."),
            Arg("use_o_direct", "bool", False, "Read past the system's cache."),
        ),
    )
    reads = (0,)
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ...compiled.step import compile_all
        from . import file_read_kernels

        self._kernels = file_read_kernels
        compile_all(file_read_kernels)
        self._fetches = Fetches(may_redirect(spec, environment))
        self._expected = ExpectedSizes()
        self._remote = spec.constant("allow_remote_entries")
        self._direct = spec.constant("use_o_direct")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    traits = Trait.READS_FILES

    @property
    def may_wait(self) -> bool:
        return bool(self._remote)

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source, kernels = inputs[0], self._kernels
        count, lengths = len(source), source.sizes()
        starts = np.cumsum(lengths + 1) - (lengths + 1)
        paths = np.empty(int((lengths + 1).sum()), np.uint8)
        names = _Names(paths, starts)
        explain = self._explain(names)
        context, keep = COPY_PATHS.make(texts=source.addresses, lengths=lengths, targets=starts + paths.ctypes.data)
        yield CompiledJob(count, [Step(kernels.copy_path.address, context, no_explanation, keep=keep)], brief=count <= _FEW)
        self._check_access(names)
        if b"://" in paths.tobytes() and any(map(is_remote, names)):
            self._refuse_remote(names)
            return self._fetched(names)
        if self._direct:
            return (yield from self._past_the_cache(names, paths, starts, explain))
        output = yield from whole_files(
            PathTexts(paths.ctypes.data, starts, paths), self._expected, self.environment.allocate, explain,
            lambda sizes: self._refuse_empty(sizes, names), 0,
        )  # fmt: skip
        output.source_info = names
        return output

    def _past_the_cache(
        self, names: _Names, paths: np.ndarray, starts: np.ndarray, explain: Callable[[int, str, int], str]
    ) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that read files without the system's cache. Returns their contents."""
        kernels, count = self._kernels, len(starts)
        descriptors, sizes = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        context, keep = OPEN_FILES.make(
            paths=paths, starts=starts, descriptors=descriptors, sizes=sizes, read_ahead=0, may_stay_open=0, block=0,
            capacity=0, expected=0, used=0, addresses=0, scan=0, heads=0, head_bytes=0, marks=0,
            found_left=0, found_empty=0, found_bytes=0, found_equal=0, found_marks=0,
        )  # fmt: skip
        yield CompiledJob(count, [Step(kernels.open_step.address, context, explain, keep=keep)])
        self._refuse_empty(sizes, names)
        output = Batch(sizes.reshape(count, 1), DALIDataType.UINT8, source_info=names)
        yield CompiledJob(count, [replace(self._read_direct(output, sizes, paths, starts), explain=explain)])
        return output

    def _check_access(self, names: _Names) -> None:
        access = self.environment.access
        if not access.limited:
            return
        for sample, name in enumerate(names):
            if not access.may_read(name):
                try:
                    access.check_read(name, "an entry of the input")
                except RuntimeError as error:
                    raise SampleError(sample, str(error)) from None

    def _refuse_remote(self, names: _Names) -> None:
        """Raise SampleError for the first URL that the data may not choose."""
        if self._remote:
            return
        sample, name = next((sample, name) for sample, name in enumerate(names) if is_remote(name))
        raise SampleError(
            sample,
            f"Refused to open {name!r}: the name comes from the pipeline's data and has a scheme. Names are paths of local files. "
            "If you trust the data, pass allow_remote_entries=True.",
        )

    def _fetched(self, names: _Names) -> Batch:
        output: Batch = self._fetches.begin(lambda: fetched_batch(list(names), self.environment.allocate)).result()
        self._refuse_empty(output.sizes(), names)
        output.source_info = names
        return output

    def _refuse_empty(self, sizes: np.ndarray, names: _Names) -> None:
        if not self.spec.constant("dont_use_mmap") and not sizes.all():
            sample = int(np.argmin(sizes))
            raise SampleError(sample, f"File mapping failed: {names[sample]}: the file is empty")

    def _read_direct(self, output: Batch, sizes: np.ndarray, paths: np.ndarray, starts: np.ndarray) -> Step:
        room = -(-sizes // BLOCK) * BLOCK
        block = self.environment.allocate(int(room.sum()) + BLOCK)
        output.addresses[:] = -(-block.ctypes.data // BLOCK) * BLOCK + np.cumsum(room) - room
        output.owner = block
        context, keep = READ_DIRECT.make(sizes=sizes, room=room, addresses=output.addresses, paths=paths, starts=starts)
        return Step(self._kernels.read_direct_step.address, context, no_explanation, keep=keep)

    def _explain(self, names: _Names) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            if code == self._kernels.SHORT_READ:
                return f"File mapping failed: {names[sample]}: the file became shorter while it was read"
            return explained(code, f"File mapping failed: {names[sample]}: {os.strerror(code)}")

        return explain

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned([iteration.prepared])

    def stop(self) -> None:
        self._fetches.stop()

    def close(self) -> None:
        self._fetches.close()

"""Base class of readers whose samples are the files of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...operators.base import Environment, Spec
from ..base import Origin, ReaderOperator
from ..digest import names_of
from .file_table import FileTable


class TableReader(ReaderOperator):
    """Each sample is a file. `discover` sets ``_table``."""

    def __init__(self, spec: Spec, environment: Environment):
        self._table: FileTable | None = None
        super().__init__(spec, environment)

    @property
    def table(self) -> FileTable:
        """The files, after `discover`."""
        assert self._table is not None
        return self._table

    @property
    def any_remote(self) -> bool:
        return self.table.remote

    def origin_of(self, index: int) -> Origin:
        return Origin(self.table.name(index))

    def origins_of(self, indices: Sequence[int]) -> list[Origin]:
        return [Origin(name) for name in self.table.names(indices)]

    def stretches(self, index: int) -> list[Origin]:
        return [Origin(self.table.path(index))]

    def identity(self) -> list[bytes | np.ndarray]:
        return [names_of(self.table)]

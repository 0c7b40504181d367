"""Where DALI's users look for the iterators with `peek`."""

from __future__ import annotations

from .factory import peekable_data_iterator
from .iterator import DALIGenericPeekableIterator

__all__ = ["DALIGenericPeekableIterator", "peekable_data_iterator"]

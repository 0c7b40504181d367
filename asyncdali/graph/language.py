"""The functions behind the methods of `DataNode`. They are given to `data_node` and `types` when this package is imported.

Nodes and constants are below the graph and do not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import data_node
from ..types import constant
from . import arithmetic, conditionals, subscripts
from .constants import constant_node

if TYPE_CHECKING:
    from ..data_node import DataNode


class GraphLanguage:
    """An implementation of `data_node.Language`."""

    operation = staticmethod(arithmetic.operation)
    subscript = staticmethod(subscripts.subscript)
    here = staticmethod(conditionals.here)
    where_tests_work = staticmethod(conditionals.where_tests_work)

    @staticmethod
    def call(name: str, node: DataNode, **arguments: object) -> DataNode:
        from .. import fn

        made: DataNode = getattr(fn, name)(node, **arguments)
        return made


data_node.language = GraphLanguage()
constant.make_node = constant_node

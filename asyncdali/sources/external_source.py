"""external_source as an operator of the graph: it passes on the batch that was fed to its iteration."""

from __future__ import annotations

from typing import Any

from ..operators.base import Arg, Operator, Role, Schema, Trait, register
from ..types import DALIDataType


@register
class ExternalInput(Operator):
    schema = Schema(
        name="external_source",
        doc="""Data from Python: an iterable, a generator function, a callable, or batches fed with `Pipeline.feed_input`.

        See :func:`asyncdali.fn.external_source`.""",
        inputs=(0, 0),
        devices=("cpu", "gpu"),
        hand_written="external_source",
        role=Role.INPUT,
        calls_python=True,
        args=(
            Arg("blocking", "bool", False, "Fed data: wait for data instead of failing."),
            Arg("dtype", "dtype", None, "Element type; other data is refused."),
            Arg("layout", "layout", None, "Layout of the samples."),
            Arg("ndim", "int", None, "Number of dimensions of a sample; other data is refused."),
            Arg("no_copy", "bool", False, "Use the data in place. It must not change until the iteration is done."),
            Arg("repeat_last", "bool", False, "Fed data: use the last batch again if nothing new was fed."),
        ),
    )

    traits = Trait.HANDS_OVER
    eager = True
    on_cuda = True  # its segment uploads data from the host

    @classmethod
    def port(cls) -> Any:
        """The object that accepts fed data."""
        from .ports import Port

        return Port

    @property
    def instant(self) -> bool:
        return True  # the data exists before planning

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self.spec.constant("dtype")]


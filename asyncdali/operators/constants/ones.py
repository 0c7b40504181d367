"""ones: samples of ones."""

from __future__ import annotations

from ..base import Schema, register
from .equal_values import Filled
from .zeros import Zeros


@register
class Ones(Filled):
    schema = Schema(name="ones", doc="Samples of ones.", inputs=(0, 0), gives=Zeros.schema.gives, args=Zeros.schema.args)
    value = 1

"""The compiled step of the test operators."""

from __future__ import annotations

from asyncdali.compiled.intrinsics import load_i64, store_i64
from asyncdali.compiled.step import step

from .probe_tables import NUMBER

at = NUMBER.at


@step
def number_step(context, sample, thread):
    """Write the sample's number times `factor`."""
    if sample == load_i64(context + at.bad):
        return 42
    target = load_i64(load_i64(context + at.outputs) + 8 * sample)
    for k in range(load_i64(context + at.elements)):
        store_i64(target + 8 * k, sample * load_i64(context + at.factor))
    return 0

"""The compiled step of the test operators."""

from __future__ import annotations

from asyncdali.compiled.intrinsics import load_i64, store_i64
from asyncdali.compiled.step import step


@step
def number_step(context, sample, thread):
    """Context: addresses, elements per sample, factor, the sample that fails."""
    if sample == load_i64(context + 24):
        return 42
    target = load_i64(load_i64(context) + 8 * sample)
    for k in range(load_i64(context + 8)):
        store_i64(target + 8 * k, sample * load_i64(context + 16))
    return 0

"""Passes over a plan that let an operator use what it knows of its neighbours. They save time and never change a result.

    expressions.py  trees of arithmetic become one operator
    contents.py     operators compute while planning what an operator of the same segment reads
    caches.py       readers leave out files whose results all consumers keep
    feeds.py        a decoder hands rows or windows to its only consumer
    heads.py        readers scan the heads of files for decoders
    narrow.py       engines on other machines send narrow elements instead of wide ones

Launches of a GPU are fused when they are known, in ``runtime.gpu.device_segments``.

``ASYNCDALI_WITHOUT`` switches passes off, to find out whether one of them is at fault: a list of names separated by commas, or ``all``. The
names are those of the modules, and ``launches``.

May import: operators, types; of its own room, the plan.
"""

from __future__ import annotations

import os

PASSES = ("expressions", "contents", "caches", "feeds", "heads", "narrow", "launches")


def enabled(name: str) -> bool:
    """Whether the pass `name` is to be made. ValueError if the environment names a pass that does not exist."""
    assert name in PASSES
    without = os.environ.get("ASYNCDALI_WITHOUT", "")
    if not without:
        return True
    names = {part.strip() for part in without.split(",")}
    unknown = sorted(names - {"all", *PASSES})
    if unknown:
        raise ValueError(f"ASYNCDALI_WITHOUT={without!r} names {', '.join(unknown)}; expected 'all', or some of {', '.join(PASSES)}")
    return "all" not in names and name not in names

"""Whether a text of tests uses an operator."""

from __future__ import annotations

import re


def mentions(name: str, text: str) -> bool:
    """Whether a text calls an operator or has its name as a string; tables name operators of a family without their module."""
    in_family = name.startswith(("reductions.", "transforms.", "random.", "noise.", "decoders."))
    short = re.escape(name.rpartition(".")[2] if in_family else name)
    called = re.escape(name.removeprefix("experimental."))
    quoted = rf"[\"'`]({re.escape(name)}|{short})[\"'`]"
    return re.search(rf"\bfn\.(experimental\.)?{called}\b|{quoted}|\.{short}\(", text) is not None

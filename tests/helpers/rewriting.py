"""Checkpoints with changed contents and a matching digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any


def rewritten(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """The checkpoint after ``change(body)``, which modifies the body in place."""
    body = json.loads(data)["body"]
    change(body)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({"body": body, "digest": hashlib.sha256(text.encode()).hexdigest()}).encode()

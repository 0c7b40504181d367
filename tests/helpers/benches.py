"""``asyncdali bench`` on examples/bottlenecks.py, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "bottlenecks.py"


def bench(name: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """The measurement of one of the example's pipelines."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "asyncdali", "bench", f"{EXAMPLE}:{name}", "--json", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["measurement"]

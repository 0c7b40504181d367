"""Four CPU devices for jax; import before jax."""

from __future__ import annotations

import os
import sys

COUNT = 4
if "jax" not in sys.modules:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    flags = os.environ.get("XLA_FLAGS", "")
    if "host_platform_device_count" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={COUNT}".strip()

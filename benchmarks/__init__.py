"""Benchmarks: ours and the rivals, interleaved in one run. ``python -m benchmarks --help``."""

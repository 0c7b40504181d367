"""Benchmarks of asyncdali and its rivals, interleaved in one run. ``python -m benchmarks --help``."""

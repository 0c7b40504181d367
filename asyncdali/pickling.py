"""Pickling of callables for worker processes."""

from __future__ import annotations

from asyncdali_workers import pickle_by_value as pickle_by_value

__all__ = ["pickle_by_value"]

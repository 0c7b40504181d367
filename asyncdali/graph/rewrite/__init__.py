"""Conditional execution: user functions are rewritten so that `if` and its like understand nodes.

``source`` finds a function's definition, ``transform`` rewrites it (``transform_expressions``, ``transform_assignments``; ``jumps``: what
leaves early; ``liveness``: which variables are read later; ``syntax``: building blocks), ``convert`` makes the new function. ``runtime``
is what it calls, with ``constructs`` for `if` and loops and ``expressions`` for `and`, `or` and the like; ``paths`` keeps what left a
block early and ``writes`` what was assigned to objects. ``marks`` is all that a pipeline without conditional execution needs.
"""

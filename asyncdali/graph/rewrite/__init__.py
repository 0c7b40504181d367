"""Conditional execution: user functions are rewritten so that `if` and its like understand nodes.

``source`` finds a function's definition, ``transform`` rewrites it (with ``liveness``: which variables are read later), ``convert`` makes
the new function, ``runtime`` is what it calls, ``paths`` keeps what left a block early and ``writes`` what was assigned to objects.
``marks`` is all that a pipeline without conditional execution needs.
"""

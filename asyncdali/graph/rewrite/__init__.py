"""Conditional execution: user functions are rewritten so that `if` and other conditions accept nodes.

``source`` finds a function's definition, ``transform`` rewrites it, and ``convert`` makes the new function. ``transform`` uses
``transform_expressions``, ``transform_assignments``, ``jumps`` (early exits), ``liveness`` (variables that are read later) and ``syntax``
(building blocks). The new function calls ``runtime``, which uses ``constructs`` for `if` and loops and ``expressions`` for `and`, `or` and
others. ``paths`` stores samples that left a block early, ``writes`` stores assignments to objects. A pipeline without conditional execution
needs only ``marks``.

    code.py  Code objects of rewritten definitions, and of definitions as the user wrote them

May import what `graph` may.
"""

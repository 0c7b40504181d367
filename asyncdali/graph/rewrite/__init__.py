"""Conditional execution: user functions are rewritten so that `if` and other conditions accept nodes.

``source`` finds a function's definition, ``transform`` rewrites it, and ``convert`` makes the new function. ``transform`` uses
``transform_expressions``, ``transform_assignments``, ``jumps`` (early exits), ``liveness`` (variables that are read later) and ``syntax``
(building blocks). The new function calls ``runtime``, which uses ``constructs`` for `if` and loops and ``expressions`` for `and`, `or` and
others. ``paths`` stores samples that left a block early, ``writes`` stores assignments to objects. A pipeline without conditional execution
needs only ``marks``. The operators that split and merge batches are added to the graph by ``conditionals`` of the folder above.

    blocks.py                 Blocks of statements that are being traced, and the variables, items and attributes that they write
    code.py                   Code objects of rewritten definitions, and of definitions as the user wrote them
    constructs.py             Traces an ``if`` on a node and the body of a loop: the steps of ``runtime``, and the merging of variables
    convert.py                Replaces functions by their rewritten versions
    expressions.py            ``and``, ``or``, ``not``, ``a if c else b`` and ``assert`` in rewritten functions
    jumps.py                  Control flow of statements: which of them leave a construct early, and which conditions cannot depend on a
                              node
    liveness.py               Which variables of a function are read after a statement, and which it assigns
    marks.py                  Marks on functions: not to be rewritten; made by rewritten code
    paths.py                  Samples that leave a block early: a tree of conditions with `return`, `continue` and "falls" (continues) at
                              its leaves
    runtime.py                The functions that rewritten functions call
    source.py                 Finds the definition of a function in its source file
    syntax.py                 Builds pieces of syntax trees for the rewriting
    transform.py              Rewrites one function
    transform_assignments.py  Rewrites assignments to items and attributes as calls that record the previous value; see ``writes``
    transform_expressions.py  Rewrites expressions: calls, ``and``, ``or``, ``not``, chained comparisons, ``a if c else b``, new lists and
                              dictionaries
    writes.py                 Assignments to items and attributes in a branch: undone at the end of the branch, merged after both branches

May import what `graph` may.
"""

"""The graph: nodes, operator calls that make them, and all decisions before anything runs.

    node.py, calls.py         nodes and operator calls, checked when they are made
    arithmetic.py, subscripts.py, choices.py, constants.py    Python's operators on nodes
    language.py               the functions behind the methods of nodes
    conditionals.py, rewrite/ `if` and other conditions
    plan.py                   which operators run together in one segment
    peephole/                 passes over a plan that save time
    serialize.py              graphs as bytes
    dali_pipelines.py         serialized pipelines of DALI, read
    dali_written.py           graphs as DALI serializes them
    reference.py              stubs and reference pages, from the declarations
    drawing.py, dot.py        pictures of graphs

    context.py          The stack of current pipelines of each thread, and the trace of a user's operator call

From calls to segments::

    fn.resize(x)    calls.py, node.py            checked, and noted as an operator instance with nodes
    if x > 0:       rewrite/, conditionals.py    both branches are noted, between a split and a merge
        |
        v  build()
    plan.py         what the outputs need, in DALI's order; seeds; equal operators are merged
        |
        v
    peephole/       operators that use what they know of their neighbours
        |
        v
    plan.py         segments: operators that run together -----> runtime

May import: operators' declarations, batches, types and errors; never the runtime, sources or the pipeline.
"""

from . import language as language  # gives nodes their functions

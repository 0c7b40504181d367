"""The graph: nodes, how operator calls make them, and what is decided about them before anything runs.

    node.py, calls.py         nodes and operator calls, checked when they are made
    arithmetic.py, subscripts.py, choices.py, constants.py    what Python's operators on nodes become
    language.py               the functions behind the methods of nodes
    conditionals.py, rewrite/ `if` and its like
    plan.py, fusion.py        which operators run together in one segment
    serialize.py              graphs as bytes
    reference.py              stubs and tables of docs, from the declarations
    drawing.py, dot.py        pictures of graphs

May import: operators' declarations, batches, types and errors; never the runtime, sources or the pipeline.
"""

from . import language as language  # nodes work from now on

"""Engines: processes that make iterations of a pipeline (docs/engines.md).

A request names a graph, an iteration, and a slice of its samples; it carries the positions before the iteration. The answer is the batches
of the cut, and the numbers of samples by which positions move on. The choice of the engine that answers a request is a hint and never
state: the training process restores the order.

    parent/   the training process: it starts, watches and replaces engines, and asks them for iterations
    child/    the engine: a process that makes iterations
    wire/     the graph, requests, batches and errors between them, and the handshake
    cut.py    the parts of the plan

The path of a request::

    training process                                               engine (one of several)

    a segment before the cut starts
        |
    parent/ordered.py    positions, order
    parent/loader.py     an engine ------ request (wire/) -------> child/server.py
                                     iteration, slice, positions       |
                                                                   child/maker.py: an executor
                                                                       |
    parent/answers.py    <------------ answer (wire/) ------------ child/server.py
        |                batches in shared memory, numbers of samples
    parent/ordered.py    the oldest answer first: the segment ends
    parent/faults.py     an engine died: another engine gets the same request

May import ``graph``, ``runtime``, ``operators.base``, ``device``, ``batch``, ``errors``, ``options`` and the workers' system calls.
No module of ``runtime`` imports this room: a session gets its engines as an argument.
"""

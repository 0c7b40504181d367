"""Engines: processes that make iterations of a pipeline (docs/engines.md).

A request names a graph, an iteration, and a slice of its samples; it carries the positions before the iteration. The answer is the batches
of the cut, and the numbers of samples by which positions move on. The choice of the engine that answers a request is a hint and never
state: the training process restores the order.

The training process: ``pool`` (start, watch and replace engines), ``loader`` (requests, order, repetition), ``receiver`` (its thread
beside a GPU), ``cut`` (the parts of the plan). The engine: ``process`` (life cycle), ``server`` (requests to answers). Between them:
``encoding`` (batches as bytes), ``blocks`` (shared memory), ``channel`` (messages and descriptors), ``failures`` (errors as data),
``program`` (the graph, once).

May import ``graph``, ``runtime``, ``operators.base``, ``device``, ``batch``, ``errors``, ``options`` and the workers' system calls.
No module of ``runtime`` imports this room: a session gets its engines as an argument.
"""

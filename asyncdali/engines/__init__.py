"""Engines: processes that make iterations of a pipeline (docs/engines.md).

A request names a graph, an iteration, and a slice of its samples; it carries the positions before the iteration. The answer is the batches
of the cut, and the numbers of samples by which positions move on. The choice of the engine that answers a request is a hint and never
state: the training process restores the order.

The training process: ``pool`` (start, watch and replace engines), ``loader`` (requests, order, repetition), ``receiver`` (its thread
beside a GPU), ``cut`` (the parts of the plan). The engine: ``process`` (life cycle), ``server`` (requests to answers). Between them:
``encoding`` (batches as bytes), ``blocks`` (shared memory), ``channel`` (messages and descriptors), ``failures`` (errors as data),
``program`` (the graph, once).

    engine_statistics.py  Counters of engines: those of this process, and those that an engine reports
    faults.py             Engines that die, stop or hang
    handshake.py          The handshake: an engine may make iterations only if it would make the same bits as the training process
    maker.py              Iterations of the part of a program before the cut, made on request
    ordered.py            Requests and answers in the order of iterations
    places.py             Facts about each request in flight, and about each engine of this machine
    reach.py              Digests of everything that a program's functions reach, for the handshake with engines on other machines
                          (docs/fleet.md)
    search.py             The search for the sample at which engines end
    sending.py            Requests to engines: which engine gets a request, and its message
    source_calls.py       Calls of sources in an engine
    source_requests.py    Calls of sources that engines make: requests, answers, and the deaths of engines in a call
    sources.py            Sources that engines call, in the training process
    spans.py              Spans of an engine's work for a trace
    starting.py           The time limit of an engine that starts

May import ``graph``, ``runtime``, ``operators.base``, ``device``, ``batch``, ``errors``, ``options`` and the workers' system calls.
No module of ``runtime`` imports this room: a session gets its engines as an argument.
"""

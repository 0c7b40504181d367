"""Batches of chosen samples: ``fn.experimental.select``, ``mix``, ``batch_by`` and ``ready``.

The graph before a regrouping is a *part*: a stream of raw iterations, made by a session of its own. Each raw iteration is a function of
positions, as always, so it may come from engines, workers, and any depth. A *regrouper* chooses the samples of the next batch. The graph
behind it gets these batches as it gets data from Python, and draws by its own iterations. The state is where each part is read, (raw
iteration, place in it), and a few numbers of the regrouper.

From raw iterations to batches::

    session of a part --> part_streams.py --> regrouper --> joining.py --> puller.py --> the graph behind
                          raw iterations      select, mix,  one batch      as data from Python
                                              batch_by, ready

    contract.py       The rule that forms batches, and its view of the parts. New kinds of regrouping begin here
    calls.py          The calls, with the checks of their arguments
    regrouping.py     A regrouping in the graph: its parts and its outputs
    select.py, mix.py, batch_by.py, ready.py    The operators, and their rules
    costs.py          The samples of a window that belong together
    shares.py         The order in which a mix takes its parts
    part_streams.py   Raw iterations of a part, and reading them sample by sample
    ready_streams.py  Raw iterations in the order in which they are finished
    joining.py        Samples of several raw iterations as one batch
    origins.py        The origins of regrouped samples
    puller.py         Regrouped batches as a source of the graph behind

Sessions of parts are made in ``pipeline/streams.py``. May import the graph, sources, runtime, batches, tensors and errors.
"""

"""The code of a worker process: it runs tasks, calls the sources' callables, and writes samples into shared memory.

    accept.py     Converts results of callables to arrays, and refuses results that are no sample, batch or component
    callbacks.py  Runs tasks: calls the source's callable and writes its results
    states.py     Checks whether a source has adopted the state that it was given
    streams.py    A stream in its worker: ordered pulls, its end, snapshots, and how a replacement catches up
    worker.py     The main loop of a worker: take a task, run it, answer, until a message ends it
    writing.py    A worker's side of a slot

May import the standard library, numpy, `shared` and the top of this package; never asyncdali, nor the parent's side.
"""

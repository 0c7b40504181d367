"""The code of a worker process: it runs tasks, calls the sources' callables, and writes samples into shared memory.

May import the standard library, numpy, `shared` and the top of this package; never asyncdali, nor the parent's side.
"""

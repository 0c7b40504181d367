"""Inside a worker process: tasks run, callables asked, samples written into shared memory.

May import the standard library, numpy, `shared` and the top of this package; never asyncdali, nor the parent's side.
"""

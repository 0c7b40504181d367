"""Stress of pipelines that threads share: thread_stress_program.py ROUNDS LIMIT INTERVALS [KIND ...].

ROUNDS rounds of every kind of pipeline (or of each KIND) at each of the switch INTERVALS, such as 1e-6,1e-4. Each batch is returned once.
A round that takes longer than LIMIT seconds shows the stacks of all threads and ends the program with 1. Prints "no hang" at the end.
"""

import faulthandler
import itertools
import sys
import threading

import numpy as np

from asyncdali import Pipeline, fn
from asyncdali.plugin.base_iterator import BaseIterator

SIZE, THREADS, CALLS = 2, 3, 25


def numbers(info):
    return np.int64([info.idx_in_epoch])


async def awaited(info):
    return np.int64([info.idx_in_epoch])


def counted():
    for k in itertools.count():
        yield np.arange(SIZE * k, SIZE * (k + 1)).reshape(SIZE, 1)


def drawn():
    return fn.random.uniform(range=[0, 1], shape=[3])


def same(value):
    return value


KINDS = {
    "plain": (drawn, {}),
    "function": (lambda: fn.python_function(fn.external_source(numbers, batch=False), function=same), {}),
    "one at a time": (drawn, {"num_threads": 1, "prefetch_queue_depth": 1}),
    "engines": (drawn, {"engines": 2, "prefetch_queue_depth": 3}),
    "one engine": (drawn, {"engines": 1}),
    "sources in engines": (lambda: fn.external_source(numbers, batch=False) + 0, {"engines": 2}),
    "workers": (lambda: fn.external_source(numbers, batch=False, parallel=True), {"py_num_workers": 2}),
    "sources": (lambda: fn.external_source(numbers, batch=False), {}),
    "generator": (lambda: fn.external_source(counted), {}),
    "awaited": (lambda: fn.external_source(awaited, batch=False), {}),
    "fed": (lambda: fn.external_source(name="fed", blocking=True), {}),
}


class Numpy(BaseIterator):
    def __next__(self):
        with self.lock:  # as loaders that share an iterator do
            return super().__next__()

    def _converted(self, outputs, keep):
        return np.array(outputs[0].as_array())

    def _collected(self, batches):
        return batches[0]

    lock = threading.Lock()


def built(kind):
    define, options = KINDS[kind]
    pipe = Pipeline(SIZE, **{"num_threads": 2, "seed": 5, "enable_checkpointing": kind == "plain", **options})
    with pipe:
        pipe.set_outputs(define())
    pipe.build()
    return pipe


def wanted(kind):
    pipe = built(kind)
    if kind == "fed":
        return [np.full((SIZE, 1), k).tobytes() for k in range(THREADS * CALLS)]
    found = [pipe.run()[0].as_array().tobytes() for _ in range(THREADS * CALLS)]
    pipe.close()
    return found


def call_of(pipe, kind, use):
    if use == "next":
        iterator = Numpy([pipe], ["x"])
        return lambda: next(iterator).tobytes()
    if kind == "fed":
        lock, numbers = threading.Lock(), itertools.count()

        def call():
            with lock:
                pipe.feed_input("fed", np.full((SIZE, 1), next(numbers)))
                pipe.schedule_run()
                return pipe.outputs()[0].as_array().tobytes()

        return call
    return lambda: pipe.run()[0].as_array().tobytes()


def round_of(kind, use, expected):
    pipe = built(kind)
    call, found, errors = call_of(pipe, kind, use), [], []

    def consume():
        try:
            for _ in range(CALLS):
                found.append(call())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=consume, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        pipe.statistics()
        if kind == "plain":
            pipe.checkpoint()
    for thread in threads:
        thread.join()
    assert not errors, (kind, use, errors)
    assert sorted(found) == sorted(expected), (kind, use)
    assert len(pipe._core.session.in_flight) <= 8, len(pipe._core.session.in_flight)
    pipe.close()


def main():
    rounds, limit = int(sys.argv[1]), float(sys.argv[2])
    for kind in sys.argv[4:] or KINDS:
        sys.setswitchinterval(0.005)
        expected = wanted(kind)
        for interval in map(float, sys.argv[3].split(",")):
            for _ in range(rounds):
                for use in ("run",) if kind == "fed" else ("run", "next"):
                    faulthandler.dump_traceback_later(limit, exit=True)
                    sys.setswitchinterval(interval)
                    round_of(kind, use, expected)
                    sys.setswitchinterval(0.005)
        faulthandler.cancel_dump_traceback_later()
        print(kind, rounds, "rounds at", sys.argv[3], file=sys.stderr, flush=True)
    print("no hang")


if __name__ == "__main__":
    main()

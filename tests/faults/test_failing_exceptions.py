"""Exceptions that cannot be shown, stored or compared: the iteration fails with an error that says so, and the next ones go on."""

from __future__ import annotations

from helpers.warm import run_warm

SCRIPT = """
    import itertools, sys
    import numpy as np
    from asyncdali import Pipeline, fn

    class Text(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Shown(Exception):
        def __repr__(self):
            raise RuntimeError("no representation")
        def __str__(self):
            return repr(self)

    class Exits(Exception):
        def __str__(self):
            raise SystemExit(3)

    class Number(Exception):
        def __str__(self):
            return 5

    class Stored(Exception):
        def __reduce__(self):
            raise RuntimeError("cannot be stored")
        def __getstate__(self):
            raise RuntimeError("cannot be stored")

    class Empty(Exception):
        def __len__(self):
            return 0

    class Compared(Exception):
        def __eq__(self, other):
            raise RuntimeError("cannot be compared")
        __hash__ = None

    class Argument:
        def __str__(self):
            raise ValueError("no argument")
        __repr__ = __str__
        def __reduce__(self):
            raise ValueError("cannot be stored")

    MADE = [
        lambda: Text("x"), lambda: Shown("x"), lambda: Exits("x"), lambda: Number("x"), lambda: Stored("x"), lambda: KeyError(Argument()),
        lambda: ValueError(Argument()), Empty, Compared,
    ]

    def fail(k):
        if k == 1:
            raise made()
        return np.int32([k])

    def seen(value):
        return fail(int(value[0]))

    def several(values):
        return [seen(value) for value in values]

    async def awaited(info):
        return fail(info.idx_in_epoch)

    positions = lambda info: fail(info.idx_in_epoch)
    numbers = lambda info: np.int32([info.idx_in_epoch])

    PLACES = {
        "function": (lambda: fn.python_function(fn.external_source(numbers, batch=False), function=seen), {}),
        "function of batches": (
            lambda: fn.python_function(fn.external_source(numbers, batch=False), function=several, batch_processing=True), {}),
        "function in an engine": (lambda: fn.python_function(fn.external_source(numbers, batch=False), function=seen), {"engines": 1}),
        "source": (lambda: fn.external_source(positions, batch=False), {}),
        "source in an engine": (lambda: fn.external_source(positions, batch=False) + 0, {"engines": 1}),
        "source in a worker": (lambda: fn.external_source(positions, batch=False, parallel=True), {}),
        "awaited source": (lambda: fn.external_source(awaited, batch=False), {}),
    }
    for place in sys.argv[1:]:
        define, options = PLACES[place]
        for make in MADE:
            failing = True
            def made():
                return make()
            pipe = Pipeline(1, 1, seed=1, py_num_workers=1, prefetch_queue_depth=1, **options)
            with pipe:
                pipe.set_outputs(define())
            pipe.build()
            found = []
            for _ in range(2):
                try:
                    found.append(pipe.run()[0].as_array().ravel().tolist())
                except StopIteration:
                    found.append("the end")  # an error that counts as false was taken for no error
                except Exception as error:
                    found.append("error")
            assert found == [[0], "error"], (place, type(make()).__name__, found)
            pipe.close()
    print("all reported")
"""

PLACES = (
    "function", "function of batches", "function in an engine", "source", "source in an engine", "source in a worker", "awaited source",
)  # fmt: skip


def test_an_exception_that_cannot_be_shown_is_reported():
    done = run_warm(SCRIPT, *PLACES, timeout=300)
    assert done.stdout == "all reported\n", done.stderr

"""An exception of a signal's handler, while an iterator gets an iteration of its pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from asyncdali import Pipeline, fn


class Interrupt(BaseException):
    pass


def pipeline():
    pipe = Pipeline(2, 1, seed=1, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(lambda k: np.full((2, 1), k)), function=fail_at_one))
    pipe.build()
    return pipe


def fail_at_one(value):
    if value[0] == 1:
        raise ValueError("second batch")
    return value


def interrupt(record, result):
    raise Interrupt


def test_an_interrupt_before_the_consumer_has_an_error_does_not_lose_it():
    pipe = pipeline()
    session = pipe._core.session
    kept = []
    for expected in (0, "second batch", 2):
        pipe._core.fill(session)
        for _ in range(2):
            with pytest.raises(Interrupt):
                session.delivery.hand_over(None, interrupt)
        session.delivery.hand_over(None, lambda record, result: kept.append((record, result)))
        record, result = kept.pop()
        assert record.error is None and record not in session.in_flight
        if isinstance(expected, str):
            assert isinstance(result, Exception) and expected in str(result) and result.__traceback__ is None
        else:
            assert np.array_equal(result[0].as_array(), np.full((2, 1), expected))
    pipe.close()


def test_an_interrupt_behind_the_last_step_repeats_nothing():
    pipe = pipeline()
    session = pipe._core.session
    kept = []

    def keep(record, result):
        kept.append((record, result))
        raise Interrupt

    for number in range(2):
        pipe._core.fill(session)
        with pytest.raises(Interrupt):
            session.delivery.hand_over(None, keep)
        record = kept[number][0]
        session.delivery.drop(record)
        assert record.error is None and record not in session.in_flight
    assert "second batch" in str(kept[1][1])
    assert np.array_equal(pipe.run()[0].as_array(), np.full((2, 1), 2))
    pipe.close()

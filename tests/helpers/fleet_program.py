"""A program for `asyncdali engine`: a reader, draws, and a function at which the engine's process ends or stops, each once."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

from asyncdali import fn, pipeline_def


def faulty(number: np.ndarray) -> np.ndarray:
    """Half of the number. With FLEET_FAULTS, the first call with 17 ends the process, and the first call with 67 stops it."""
    folder = os.environ.get("FLEET_FAULTS")
    signals = {17: signal.SIGKILL, 67: signal.SIGSTOP}
    if folder and int(number[0]) in signals:
        try:
            os.close(os.open(os.path.join(folder, str(int(number[0]))), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            # Signal this thread, which handles the signal before it returns. Another thread could handle a signal to the process, later.
            signal.pthread_kill(threading.get_ident(), signals[int(number[0])])
    return number / 2


def give(iteration: int) -> np.ndarray:
    """Ten iterations of eight numbered samples."""
    if iteration == 10:
        raise StopIteration
    return np.arange(8, dtype=np.int32).reshape(-1, 1) + 8 * iteration


@pipeline_def(batch_size=8, num_threads=1, seed=3, prefetch_queue_depth=3)
def train():
    number = fn.external_source(source=give)
    drawn = fn.random.uniform(range=[0, 1], shape=[40_000])
    return fn.python_function(number, function=faulty), drawn


def slowly(number: np.ndarray) -> np.ndarray:
    """Half of the number, after SLOW milliseconds."""
    time.sleep(float(os.environ.get("SLOW", "0")) / 1000)
    return number / 2


@pipeline_def(batch_size=8, num_threads=1, seed=3, prefetch_queue_depth=6)
def endless():
    drawn = fn.random.uniform(range=[0, 1], shape=[40_000])
    return fn.python_function(fn.random.uniform(range=[0, 1]), function=slowly, batch_processing=False), drawn

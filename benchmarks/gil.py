"""Interpreter time per sample of the training pipeline; see ``asyncdali.tooling.interpreter``."""

from __future__ import annotations

from . import programs


def held_per_sample(folder: str, batches: int = 60, batch: int = 64) -> float:
    """Microseconds of interpreter time per sample; an upper bound."""
    import asyncdali
    from asyncdali.tooling.interpreter import interpreter_time

    pipeline = programs.training(asyncdali, folder, batch)
    try:
        for _ in range(4):
            pipeline.run()
        with interpreter_time() as used:
            for _ in range(batches):
                pipeline.run()
    finally:
        pipeline.close()
    return used.seconds / (batches * batch) * 1e6

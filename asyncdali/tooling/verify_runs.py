"""Finds out whether a pipeline gives the same stream again: in a second run, after a restore, with other numbers of threads and ranks.

The pipeline is made several times, with the outputs of all operators. The first operator whose outputs differ is named.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CheckpointError
from ..pipeline.front import Front, core_of
from ..provenance.replayed import digest_of
from ..runtime.parts import Part
from .verify_elsewhere import FreshGlobals, another_time

if TYPE_CHECKING:
    from ..graph.node import OperatorInstance
    from ..pipeline.core import Core

_END = "end of the epoch"
_SEED = 20210
_RANKS = 3


@dataclass(frozen=True)
class Fault:
    """A difference between two runs.

    check      the check that found it: "again", "restore", "threads", "workers", "engines", "ranks" or "process"
    step       the first step that differs
    operator   the first operator whose output differs
    line       the user's line that made the operator
    text       the fault as a sentence
    """

    check: str
    step: int
    operator: str
    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.text}\n    {self.line}" if self.line else self.text


@dataclass
class TestedRun:
    """The steps of one run: for each step the digests of all operators' outputs; checkpoints before each step and at the end."""

    steps: list[list[str]] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    operators: list[OperatorInstance] = field(default_factory=list)


def run(
    make: Callable[[], Front], steps: int, checkpoint: bytes | None = None, options: dict[str, Any] | None = None, seeds: int = 0,
    told: Callable[[int, bytes], None] = lambda step, checkpoint: None, part: Part | None = None,
) -> TestedRun:  # fmt: skip
    """Make the pipeline, and run it for `steps` steps from `checkpoint` on.

    `options` replace the pipeline's. The global random generators begin with `seeds`, and get back their states at the end. `told` is
    called with the number and the checkpoint of each step before it. With a `part` of the batches, as a rank has, the run has the digests
    of the pipeline's own outputs, a line for each sample.
    """
    kept, kept_numpy = random.getstate(), np.random.get_state()
    random.seed(seeds)
    np.random.seed(seeds)
    pipeline = make()
    if not isinstance(pipeline, Front):
        raise TypeError(f"the function returned a {type(pipeline).__name__}; it must return a Pipeline")
    core = core_of(pipeline)
    try:
        if core.is_built:
            raise RuntimeError("the pipeline is built already; give the function that makes it, and let the check build it")
        core.options.enable_checkpointing, core.options.checkpoint = True, checkpoint
        core.options.seed = _SEED if core.options.seed is None else core.options.seed
        for name, value in (options or {}).items():
            setattr(core.options, name, value)
        if part is not None:
            core.part = part
            return _run_part(pipeline, core, steps)
        return _run(pipeline, core, steps, told)
    finally:
        core.close()
        random.setstate(kept)
        np.random.set_state(kept_numpy)


def _run(pipeline: Any, core: Core, steps: int, told: Callable[[int, bytes], None]) -> TestedRun:
    from ..graph.plan import reachable

    given = core.output_nodes()
    order = reachable(given, core.definition.instances).order
    nodes = [node for instance in order for node in instance.outputs]
    core.set_outputs([*given, *nodes])
    found = TestedRun(operators=[node.source for node in nodes])
    for step in range(steps):
        found.checkpoints.append(pipeline.checkpoint())
        told(step, found.checkpoints[-1])
        try:
            outputs = pipeline.run()[len(given) :]
        except StopIteration:
            found.steps.append([_END] * len(nodes))
            pipeline.reset()
            continue
        found.steps.append([digest_of(one) for one in outputs])
    found.checkpoints.append(pipeline.checkpoint())
    return found


def _run_part(pipeline: Any, core: Core, steps: int) -> TestedRun:
    found = TestedRun(operators=[node.source for node in core.output_nodes()])
    for _ in range(steps):
        try:
            outputs = pipeline.run()
        except StopIteration:
            found.steps.append([""] * len(found.operators))
            pipeline.reset()
            continue
        found.steps.append(["".join(f"{digest_of(one[k : k + 1])}\n" for k in range(len(one))) for one in outputs])
    found.checkpoints.append(pipeline.checkpoint())
    return found


def verify(
    make: Callable[[], Front], steps: int = 12, restores: int = 4, seed: int = 0, left_out: dict[str, str] | None = None
) -> list[Fault]:
    """The faults of the pipeline that `make` makes; empty if its stream is the same in all runs.

    Args:
        make: makes the pipeline, and its sources, each time.
        steps: steps of a run.
        restores: number of random steps at which a checkpoint is restored, besides the first and the last.
        seed: chooses these steps.
        left_out: gets the runs ("engines", "ranks") that this pipeline refuses, and the reasons.

    Raises:
        RuntimeError: the pipeline is built, or fails. Other errors of the pipeline are passed on.
    """
    skipped = {} if left_out is None else left_out
    before = FreshGlobals()
    first = run(make, steps)
    with another_time():
        again = run(make, steps, seeds=1)
    found = _difference(first, again, 0)
    if found is not None:
        return [_fault("again", found, _reason(make, first, steps))]
    choice = random.Random(seed)
    places = sorted({1, steps - 1, *(choice.randrange(1, steps) for _ in range(restores))})
    for place in places:
        before.restore()
        try:
            restored = run(make, steps - place, first.checkpoints[place])
        except CheckpointError as error:
            return [Fault("restore", place, getattr(error, "name", None) or "", "", f"step {place}: {error}")]
        found = _difference(first, restored, place)
        if found is not None:
            reason = (
                f"does not continue after a restore at step {place}. Its state is not in the checkpoint, or not that of the last batch "
                "returned: use a callable with one argument (the position), or state_dict() and load_state_dict() of a source that counts "
                "only what it has returned, and that copies lists. Globals of modules are not part of a checkpoint either (a cache)"
            )
            return [_fault("restore", found, reason)]
    return _other_settings(make, first, steps, skipped) or _ranks(make, places[len(places) // 2], steps, skipped)


def _ranks(make: Callable[[], Front], place: int, steps: int, left_out: dict[str, str]) -> list[Fault]:
    """Continue at step `place` on three ranks. Their samples together are those of one process."""
    try:
        whole = run(make, steps, part=Part(0, 1))
        [checkpoint] = run(make, place, part=Part(0, 1)).checkpoints
        parts = [run(make, steps - place, checkpoint, part=Part(rank, _RANKS)) for rank in range(_RANKS)]
    except CheckpointError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:  # ranks cannot share its batches
        left_out["ranks"] = str(error)
        return []
    joined = [["".join(samples) for samples in zip(*of_step, strict=True)] for of_step in zip(*(part.steps for part in parts), strict=True)]
    found = _difference(whole, TestedRun(joined), place)
    reason = f"gives other data on {_RANKS} ranks: a sample depends on the others of its batch, on the process, or on the order of calls"
    return [] if found is None else [_fault("ranks", found, reason)]


def _reason(make: Callable[[], Front], first: TestedRun, steps: int) -> str:
    """Why a run with other random generators and at another time gives other data."""
    if _difference(first, run(make, steps), 0) is not None:
        return (
            "gives other data in another run. It uses the clock, a generator without a seed, or state that outlives the pipeline (a cache, "
            "a counter of a module)"
        )
    with another_time():
        later = run(make, steps)
    if _difference(first, later, 0) is not None:
        return "uses the clock: its data are others at another time. Derive data from the position"
    return "uses the global random generators (`random`, `numpy.random`): use fn.random, or a generator that is made from the position"


def _other_settings(make: Callable[[], Front], first: TestedRun, steps: int, left_out: dict[str, str]) -> list[Fault]:
    checks: list[tuple[str, dict[str, Any], str]] = [
        ("threads", {"num_threads": 1, "prefetch_queue_depth": 1}, "depends on the number of threads, or on the depth of the queue"),
        ("threads", {"num_threads": 3, "prefetch_queue_depth": 4}, "depends on the number of threads, or on the depth of the queue"),
    ]
    if any(getattr(instance.attachment, "parallel", False) for instance in first.operators):
        reason = "depends on the number of worker processes: derive seeds from the position, not from the process"
        checks += [("workers", {"py_num_workers": count}, reason) for count in (1, 3)]
    for check, options, reason in checks:
        with _unchecked():
            found = _difference(first, run(make, steps, options=options), 0)
        if found is not None:
            return [_fault(check, found, reason)]
    try:
        found = _difference(first, run(make, steps, options={"engines": 2}), 0)
    except (RuntimeError, ValueError, TypeError) as error:  # the pipeline cannot run in engines
        left_out["engines"] = str(error)
        return []
    return [] if found is None else [_fault("engines", found, "gives other data in engines, which are other processes")]


@contextmanager
def _unchecked() -> Iterator[None]:
    """Pipelines that are built inside do not say that their settings do not suit the machine: they are not the user's settings."""
    before = os.environ.get("ASYNCDALI_DOCTOR")
    os.environ["ASYNCDALI_DOCTOR"] = "0"
    try:
        yield
    finally:
        del os.environ["ASYNCDALI_DOCTOR"]
        if before is not None:
            os.environ["ASYNCDALI_DOCTOR"] = before


def _difference(first: TestedRun, other: TestedRun, begin: int) -> tuple[int, OperatorInstance] | None:
    """The first step that differs, and the first operator that differs there. `other` begins at step `begin` of `first`."""
    for k, (mine, theirs) in enumerate(zip(first.steps[begin:], other.steps, strict=True)):
        for instance, one, two in zip(first.operators, mine, theirs, strict=True):
            if one != two:
                return begin + k, instance
    return None


def difference_of(first: TestedRun, steps: list[list[str]], begin: int) -> list[Fault]:
    """The fault of a run in another process, whose digests from step `begin` on are `steps`."""
    found = _difference(first, TestedRun(steps), begin)
    reason = "gives other data in another process: it uses memory, an environment or an order of hashes that the new process does not have"
    return [] if found is None else [_fault("process", found, reason)]


def _fault(check: str, found: tuple[int, OperatorInstance], reason: str) -> Fault:
    step, instance = found
    name = f"`{instance.schema.name}` (name {instance.name!r})"
    return Fault(check, step, instance.name, _line(instance.format_trace().splitlines()), f"step {step}: {name} {reason}.")


def _line(trace: Sequence[str]) -> str:
    """The user's line: the last one with a file."""
    return next((line.strip() for line in reversed(trace) if line.strip().startswith("File ")), "")

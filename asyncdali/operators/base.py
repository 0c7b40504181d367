"""The operator contract: how an operator is declared, checked, planned.

An operator is one class in one module. Its class attribute ``schema`` declares everything a user can see (name, inputs, arguments, types,
defaults, devices, documentation); ``fn``, ``ops``, the type stubs and the reference tables are derived from it. An instance lives in
a built pipeline and is asked once per iteration::

    prepare(inputs, arguments, iteration)  yields jobs to run on the samples before planning   (read bytes, odd formats)
    plan(inputs, arguments, iteration)     -> Planned(outputs, steps)                          (vectorised over the batch)

What `prepare` returns is ``iteration.prepared`` in `plan`. Neither changes the operator: any iteration may be planned at any time, in any
order, several at once, or twice.

`plan` runs on one thread, with the shapes of all inputs known; it returns output batches whose memory is not placed yet, and compiled
steps (see ``asyncdali.compiled``) that fill them sample by sample. An output whose contents `plan` computes itself
(``Batch.from_values``) needs no step. Contents of inputs may be read in `plan` only for the inputs named by ``reads``; the graph is
cut into segments so that they are ready.

State is a position, an immutable value that the runtime keeps. A stateful operator tells the first one (``start``), reads
``iteration.position``, and computes with ``after(position, samples)`` the position behind an iteration that produced `samples` samples.

The parts of the contract are in modules of their own: ``schema`` (the declaration), ``spec`` (what an instance is given), ``arguments``
(values per sample), ``steps`` (what an operator answers with), ``gate`` (the check of inputs), ``registry``. Other modules import them
from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..batch import Batch
from ..errors import SampleError
from ..types import DALIDataType
from .accepts import Input, declared
from .arguments import Arguments
from .gate import Gate
from .registry import REGISTRY, STORABLE, register, storable
from .schema import COMMON_ARGUMENTS, REQUIRED, SEED_ARGUMENT, Arg, Role, Schema, camel_case
from .spec import Environment, Iteration, Spec, check_access
from .steps import NOTHING, CompiledJob, Planned, Preparation, PythonJob, Step, no_explanation

__all__ = [
    "Operator", "Schema", "Arg", "Role", "REQUIRED", "COMMON_ARGUMENTS", "SEED_ARGUMENT", "camel_case",
    "Spec", "Environment", "Iteration", "check_access", "Arguments", "Gate",
    "Step", "Planned", "PythonJob", "CompiledJob", "Preparation", "no_explanation",
    "REGISTRY", "register", "STORABLE", "storable", "SampleError",
]  # fmt: skip


class Operator:
    """Base of all operators; see the module docstring."""

    schema: ClassVar[Schema]
    reads: ClassVar[tuple[int, ...]] = ()
    """Positional inputs whose contents `prepare` or `plan` look at (argument inputs always are)."""
    reads_on_cuda: ClassVar[tuple[int, ...] | None] = None
    """As `reads`, where a GPU does the work; None: the same."""
    eager: ClassVar[bool] = False
    """Outputs have their contents after `plan` (draws, constants, readers)."""
    passes_on: ClassVar[bool] = False
    """Outputs have their contents after `plan` if the inputs have."""
    barrier: ClassVar[bool] = False
    """Must be a segment of its own (user Python)."""
    on_cuda: ClassVar[bool] = False
    """Whether it runs on a CUDA device: all its steps have launches, or it has no steps. A pipeline with one that does not is refused."""

    only_compiles: ClassVar[bool] = True
    """Making an instance compiles kernels and has no effect outside (a reader looks for its files); see ``runtime.compiling``."""
    hands_out_samples: ClassVar[bool] = False
    """Outputs are samples of the inputs where they lie, in batches of other samples."""

    kept_by: int = 0
    """Operators that read the first output, if all of them keep their results (:meth:`keeps_results`) and nobody else reads it; else 0."""

    def __init__(self, spec: Spec, environment: Environment):
        self.spec = spec
        self.environment = environment

    @classmethod
    def keeps_results(cls, spec: Spec) -> bool:
        """Whether the instance `spec` finds the results of its first input again (a cache), so that the contents may be left out."""
        return False

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        """Positional inputs whose contents `prepare` or `plan` of the instance `spec` look at; `on_cuda`: where a GPU does the work."""
        return cls.reads if not on_cuda or cls.reads_on_cuda is None else cls.reads_on_cuda

    @property
    def output_device(self) -> str:
        """Where the outputs are: "gpu" for mixed and gpu operators."""
        return "cpu" if self.spec.device == "cpu" else "gpu"

    # --- state

    scope_argument: ClassVar[str | None] = None
    """The argument that tells in which branch of a conditional the operator is; by default any input does."""
    skips_empty: ClassVar[bool] = True
    """In a branch of a conditional that no sample takes it is not asked at all."""
    stateful: ClassVar[bool] = False

    @property
    def start(self) -> Any:
        """The position of a fresh pipeline."""
        return None

    def after(self, position: Any, samples: int) -> Any:
        """The position behind an iteration that began at `position` and produced `samples` samples."""
        return None

    def part_at(self, position: Any, first: int) -> Any:
        """Where a part of an iteration begins: at sample `first` of the iteration that begins at `position`.

        An operator that leaves this as it is chooses its samples in `plan` (``iteration.first``, ``iteration.whole``).
        """
        return position

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        """Why the instance `spec` cannot make a part of an iteration without the other samples; empty: it can."""
        return "its outputs depend on the number of samples" if cls.schema.looks_across else ""

    def save(self, position: Any) -> Any:
        """A position as JSON data."""
        return None

    def load(self, data: Any) -> Any:
        """The position saved as `data`; ValueError with a readable reason if it is not one."""
        return None

    def settings(self) -> Any:
        """What was decided in ``build()`` and changes results, as JSON data for checkpoints; None: nothing."""
        return None

    def use_settings(self, data: Any) -> None:
        """Decide as the pipeline did whose :meth:`settings` are `data`; ValueError with a readable reason if they are none."""

    # --- build

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        """Element types of the outputs for those of the inputs, None where only known when running.

        Called once in ``build()``: kernels that depend on element types are compiled here, not in a pool thread.
        """
        return [None] * self.spec.output_count

    @property
    def instant(self) -> bool:
        """Whether `plan` is a matter of microseconds, needs no jobs and no steps, and runs no user code.

        A segment of nothing else is planned on the loop's own thread: waking another would cost several times as much.
        """
        return False

    def counted(self) -> tuple[tuple[str, int], ...]:
        """What the operator has counted since ``build()``: (name, number) pairs, always the same names in the same order."""
        return ()

    # --- inputs

    def accepts(self) -> tuple[Input, ...]:
        """What this instance accepts as inputs: what the schema declares, or less, where arguments say so."""
        return self.schema.accepts

    def layout_of(self, batch: Batch, position: int = 0) -> str:
        """The layout of an input, or the one that it is taken to have."""
        return batch.layout or declared(self.schema.accepts, position).layout(batch)

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Work per sample that has to be done before :meth:`plan`.

        A generator is resumed when the job that it yielded is over; what it returns is ``iteration.prepared`` in `plan`.
        """
        return NOTHING

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        """Decide the iteration; see the module docstring."""
        raise TypeError(f"operator {self.schema.name} does not implement plan()")

    def stop(self) -> None:
        """The pipeline is being closed: wake whoever waits in this operator. Its threads may be at work still."""

    def close(self) -> None:
        """Release what the operator holds (files, processes), when the threads of the pipeline have ended."""

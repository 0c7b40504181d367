"""The operator contract: how an operator is declared, checked and planned.

An operator is one class in one module. Its class attribute ``schema`` declares everything that a user can see: name, inputs, arguments,
types, defaults, devices, documentation. ``fn``, ``ops``, the type stubs and the reference pages are derived from it. An instance belongs to
a built pipeline and is called once per iteration::

    prepare(inputs, arguments, iteration)  yields jobs to run on the samples before planning   (read bytes, odd formats)
    plan(inputs, arguments, iteration)     -> Planned(outputs, steps)                          (vectorised over the batch)

The return value of `prepare` is ``iteration.prepared`` in `plan`. Neither method changes the operator: any iteration may be planned at any
time, in any order, several at a time, or twice.

`plan` runs on one thread and knows the shapes of all inputs. It returns output batches without memory, and compiled steps (see
``asyncdali.compiled``) that compute them sample by sample. An output whose contents `plan` itself computes (``Batch.from_values``) needs no
step. `plan` may read the contents of an input only if ``reads`` names the input; the graph is cut into segments accordingly.

State is a position, an immutable value that the runtime keeps. A stateful operator has a first position (``start``), reads
``iteration.position``, and computes with ``after(position, samples)`` the position after an iteration that produced `samples` samples.

The parts of the contract have their own modules: ``schema`` (the declaration), ``spec`` (what an instance receives), ``arguments`` (values
per sample), ``steps`` (what `plan` and `prepare` return), ``traits`` (attributes that few operators have, facts about neighbours),
``gate`` (the check of inputs), ``registry``. Other modules import them from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..batch import Batch, storage_name
from ..compiled.tables import Handle
from ..errors import SampleError, refuse_where
from ..types import DALIDataType
from .accepts import Input, declared
from .arguments import Arguments
from .gate import Gate
from .registry import REGISTRY, STORABLE, register, storable
from .schema import COMMON_ARGUMENTS, REQUIRED, SEED_ARGUMENT, Arg, Example, Role, Schema, camel_case
from .spec import Environment, Iteration, Spec, check_access
from .steps import NOTHING, CompiledJob, HeadScan, Planned, Preparation, PythonJob, Step, TableStep, no_explanation
from .traits import Neighbours, Trait

if TYPE_CHECKING:
    from ..compiled.step import Compiled

__all__ = [
    "Operator", "Schema", "Arg", "Example", "Role", "REQUIRED", "COMMON_ARGUMENTS", "SEED_ARGUMENT", "camel_case",
    "Spec", "Environment", "Iteration", "check_access", "Arguments", "Gate",
    "Step", "TableStep", "Planned", "PythonJob", "CompiledJob", "HeadScan", "Preparation", "NOTHING", "no_explanation", "Trait",
    "Neighbours", "REGISTRY", "register", "STORABLE", "storable", "SampleError", "refuse_where",
]  # fmt: skip


class Operator:
    """Base class of all operators; see the module docstring."""

    schema: ClassVar[Schema]
    reads: ClassVar[tuple[int, ...]] = ()
    """Positional inputs whose contents `prepare` or `plan` read. Argument inputs are always read."""
    eager: ClassVar[bool] = False
    """Whether outputs have their contents after `plan` (draws, constants, readers)."""
    passes_on: ClassVar[bool] = False
    """Whether outputs have their contents after `plan` if the inputs have theirs."""
    repeatable: ClassVar[bool] = False
    """Whether iterations with equal inputs may get a copy of an earlier plan. `plan` must then be a function of constants, of the shapes,
    types and layouts of inputs, and of contents that `reads` declares. It sees nothing else while a plan is made to be copied
    (``runtime/templates``). A subclass with another `plan` declares it again."""
    barrier: ClassVar[bool] = False
    """Whether it must be alone in its segment (user Python)."""
    on_cuda: ClassVar[bool] = False
    """Whether the operator runs on a CUDA device: every step has a launch, or there are no steps. GPU pipelines refuse other operators."""
    traits: ClassVar[Trait] = Trait.NONE
    """Attributes that few operators have."""
    neighbours: Neighbours = Neighbours()
    """Set in ``build()``: facts about the operators that read its first output."""

    def __init__(self, spec: Spec, environment: Environment):
        self.spec = spec
        self.environment = environment

    @classmethod
    def keeps_results(cls, spec: Spec) -> bool:
        """Whether the instance `spec` has a cache of results for its first input. Then the contents of that input may be omitted."""
        return False

    def wanted_scan(self) -> HeadScan | None:
        """The scan of encoded files that a reader does for this operator: results are in ``Batch.heads`` of the first input.

        The reader need not do it: other readers, and files that need a second job, leave it to this operator."""
        return None

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        """Positional inputs whose contents `prepare` or `plan` of the instance `spec` read. `on_cuda`: whether a GPU does the work."""
        return cls.reads

    @property
    def chooses_windows(self) -> bool:
        """Whether `plan` notes windows of images (:meth:`Iteration.note_windows`)."""
        return False

    @classmethod
    def prepares(cls, spec: Spec) -> bool:
        """Whether the instance `spec` has work before planning (:meth:`prepare`)."""
        return cls.prepare is not Operator.prepare

    @classmethod
    def is_eager(cls, on_cuda: bool) -> bool:
        """Whether outputs have their contents after `plan`. `on_cuda`: whether a GPU does the work."""
        return cls.eager

    @property
    def output_device(self) -> str:
        """The device of the outputs: "gpu" for mixed and gpu operators."""
        return "cpu" if self.spec.device == "cpu" else "gpu"

    # --- state

    places_position: ClassVar[bool] = False
    """Whether `plan` only writes the position's words into tables (:meth:`words_of`, :meth:`placed`). So a copied plan can get another
    position."""
    stateful: ClassVar[bool] = False

    @property
    def start(self) -> Any:
        """The position of a fresh pipeline."""
        return None

    def after(self, position: Any, samples: int) -> Any:
        """The position after an iteration that began at `position` and produced `samples` samples."""
        return None

    def moved(self, position: Any, iterations: int, samples: int) -> Any:
        """The position after `iterations` iterations of `samples` samples each. Override it where that is a formula."""
        for _ in range(iterations):
            position = self.after(position, samples)
        return position

    def part_at(self, position: Any, first: int) -> Any:
        """The position of a part of an iteration: the part begins at sample `first` of the iteration that begins at `position`.

        An operator that does not override this method selects its samples in `plan` (``iteration.first``, ``iteration.whole``).
        """
        return position

    def words_of(self, position: Any) -> Sequence[int]:
        """The 64-bit words of a position, signed; always as many."""
        raise TypeError(f"operator {self.schema.name} does not implement words_of()")

    def placed(self, words: Sequence[Handle]) -> Any:
        """A position with handles in place of its words."""
        raise TypeError(f"operator {self.schema.name} does not implement placed()")

    @classmethod
    def names_for_dali(cls, spec: Spec) -> list[str]:
        """The names of the operators that DALI has for the instance `spec`, in their order. The last one has the outputs."""
        schema = cls.schema
        class_name = camel_case(schema.name.rpartition(".")[2])
        number = spec.name.removeprefix(f"__{class_name}_")
        automatic = number != spec.name and number.isdecimal()
        return [f"__{schema.dali_class}_{number}" if automatic and schema.dali_class else spec.name]

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        """Why the instance `spec` cannot make a part of an iteration without the other samples. Empty if it can."""
        return "its outputs depend on the number of samples" if cls.schema.looks_across else ""

    def save(self, position: Any) -> Any:
        """The position as JSON data."""
        return None

    def load(self, data: object) -> Any:
        """The position that was saved as `data`. ValueError with a readable reason for invalid data."""
        return None

    def settings(self) -> Any:
        """Decisions of ``build()`` that change results, as JSON data for checkpoints; None: there are none."""
        return None

    def use_settings(self, data: object) -> None:
        """Make the decisions in `data`, the :meth:`settings` of another pipeline (None: there were none). ValueError with a readable reason
        for invalid data."""

    # --- build

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        """Element types of the outputs for given types of the inputs; None for types known only at run time.

        Called once in ``build()``, so that kernels that depend on element types are compiled there and not on a worker thread. By default
        the types are those that the schema gives, and :meth:`kernels_for` names the kernels.
        """
        accepted = [declared(self.schema.accepts, k) for k in range(len(dtypes))] if self.schema.accepts else []
        likely = [one.likely_type(dtype) for one, dtype in zip(accepted, dtypes)]
        if len(likely) == len(dtypes) and all(dtype in one.types for one, dtype in zip(accepted, likely)):
            self._compile_kernels(likely, self._declared_types(likely))
        return self._declared_types([one.known_type(dtype) for one, dtype in zip(accepted, dtypes)] or dtypes)

    def _declared_types(self, dtypes: Sequence[DALIDataType | None]) -> list[DALIDataType | None]:
        gives = self.schema.gives
        return [declared(gives, k).known_type(self.spec, dtypes) if gives else None for k in range(self.spec.output_count)]

    def _compile_kernels(self, inputs: Sequence[DALIDataType | None], outputs: Sequence[DALIDataType | None]) -> None:
        first, second = (tuple("" if dtype is None else storage_name(dtype) for dtype in dtypes) for dtypes in (inputs, outputs))
        for kernel in self.kernels_for(first, second):
            kernel.compile()

    def kernels_for(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Iterable[Compiled]:
        """The compiled functions that `plan` needs for element types of inputs and outputs (NumPy names; "" if they are not known)."""
        return ()

    @property
    def instant(self) -> bool:
        """Whether `plan` takes microseconds, needs no jobs and no steps, and runs no user code.

        A segment of such operators is planned on the deciding thread, because waking another thread would cost several times as much.
        """
        return False

    @property
    def may_wait(self) -> bool:
        """Whether it may wait long: for the network, for another process, or for the user's Python. By default, `prepare` may."""
        return self.barrier or self.prepares(self.spec)

    @property
    def in_order(self) -> bool:
        """Whether an iteration may be prepared only when the one before is planned: `prepare` calls functions of the user, or uses files or
        memory that it shares with the next call."""
        return self.barrier

    def counted(self) -> tuple[tuple[str, int], ...]:
        """Counts since ``build()``: (name, number) pairs, always with the same names in the same order."""
        return ()

    # --- inputs

    def accepts(self) -> tuple[Input, ...]:
        """The inputs that this instance accepts: those of the schema, or fewer if arguments restrict them."""
        return self.schema.accepts

    def layout_of(self, batch: Batch, position: int = 0) -> str:
        """The layout of an input, or the assumed one."""
        return batch.layout or declared(self.schema.accepts, position).layout(batch)

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Work per sample that must be done before :meth:`plan`.

        A generator of jobs. It is resumed after each job, with the job's error if there is one; its return value is
        ``iteration.prepared`` in `plan`.
        """
        return NOTHING

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        """Plan the iteration; see the module docstring."""
        raise TypeError(f"operator {self.schema.name} does not implement plan()")

    def stop(self) -> None:
        """The pipeline is being closed: wake threads that wait in this operator. Its threads may still be running."""

    def close(self) -> None:
        """Release resources (files, processes), after the threads of the pipeline have ended."""

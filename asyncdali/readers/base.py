"""The base of all readers: arguments, the order of samples, its position, metadata."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from ..batch import Batch
from ..compiled.addresses import address_of
from ..messages.notices import warn
from ..operators.base import Arg, CompiledJob, Environment, Iteration, Operator, PythonJob, Spec, Trait
from ..sampling.order import OrderPosition, SampleOrder, Shuffling, engine_from_seed, load_kernels
from ..sampling.sharding import Sharding
from .digest import digest
from .remote.prefetch import BatchesAhead, Fetches

_Made = TypeVar("_Made")

REDIRECT_ARG = Arg(
    "allow_redirects", "bool", False, "Follow redirects of web servers to other hosts, ports and schemes.", only_here=True
)  # fmt: skip
READER_ARGS = (
    REDIRECT_ARG,
    Arg("dont_use_mmap", "bool", False, "Copy records of containers instead of using them in the mapped file; files may be empty."),
    Arg("initial_fill", "int", 1024, "Samples in the shuffle buffer.", stream=True),
    Arg("lazy_init", "bool", False, "Open the data set at first use instead of in `build()`."),
    Arg("num_shards", "int", 1, "Number of shards into which the data set is divided.", stream=True),
    Arg("pad_last_batch", "bool", False, "Fill the last batch of a shard with its last sample.", stream=True),
    Arg("prefetch_queue_depth", "int", 1, "Number of batches whose files are requested at the same time, the current batch included."),
    Arg("random_shuffle", "bool", False, "Mix the samples with a buffer of `initial_fill`.", stream=True),
    Arg("read_ahead", "bool", False, "Ask the system to read whole files when they are opened."),
    Arg("shard_id", "int", 0, "The shard that this reader reads first, from 0.", stream=True),
    Arg("skip_cached_images", "bool", False, "No effect: records are not copied, or read in one go.", inert=True),
    Arg("stick_to_shard", "bool", False, "Read the same shard in every epoch.", stream=True),
    Arg("tensor_init_bytes", "int", 1048576, "Expected bytes of a sample: `build()` allocates a buffer for a batch."),
)


def reader_args(skip_cached_images: str) -> tuple[Arg, ...]:
    """READER_ARGS with another text for `skip_cached_images`, for readers where this argument acts."""
    other = Arg("skip_cached_images", "bool", False, skip_cached_images)
    return tuple(other if arg.name == other.name else arg for arg in READER_ARGS)


SHUFFLE_AFTER_EPOCH_ARGS = (
    Arg("shuffle_after_epoch", "bool", False, "Permute the whole data set for every epoch.", stream=True),
    Arg("shuffle_after_epoch_seed", "int", None, "Seed of the permutations of `shuffle_after_epoch` (524287).", stream=True),
)


def may_redirect(spec: Spec, environment: Environment) -> bool:
    """Whether web servers may redirect requests. Never for a graph with limited access."""
    return bool(spec.constant("allow_redirects")) and not environment.access.limited


def reserve(environment: Environment, size: int, name: str) -> None:
    """Reserve a pool buffer for a batch of samples of `size` bytes. The MemoryError names the argument."""
    if size < 0:
        raise ValueError(f"`{name}` must not be negative, got {size}")
    try:
        environment.allocate(size * environment.batch_size)
    except MemoryError as error:
        raise type(error)(f"the first buffer cannot be made ({name}={size}): {error}") from None


def place_aligned(batch: Batch, allocate: Callable[[int], np.ndarray]) -> None:
    """Memory for a batch that the system will fill. Every sample begins on a multiple of 64.

    The kernel copies to such addresses in two thirds of the time. Equal samples have no gaps, so they are one dense array.
    """
    from .containers.record_kernels import lay_out

    sizes, addresses = batch.checked_sizes(), batch.addresses
    total, dense = divmod(lay_out(address_of(sizes), len(sizes), address_of(addresses)), 2)
    block = batch.granted(allocate, total if dense else total + 64, batch.sizes())
    base = address_of(block)
    addresses += base if dense else (base + 63) & -64
    batch.owner, batch.contiguous = block, bool(dense)


class Replaces(Protocol):
    """Gives other indices in place of those of bad samples."""

    def applied(self, position: OrderPosition, indices: np.ndarray) -> np.ndarray: ...


class Draw(NamedTuple):
    """The samples of one iteration: their indices, int64[samples], and the positions before and behind the iteration.

    Of an iteration of `whole` samples only those from `first` on may be wanted; 0: all are. Files of `following` later iterations
    may be read together with these.
    """

    begin: OrderPosition
    indices: np.ndarray
    behind: OrderPosition
    first: int = 0
    whole: int = 0
    following: int = 0


class Origin(NamedTuple):
    """The place of a sample: its file, and for records the offset and the size in bytes. `part` names what else chooses the sample: the
    first frame of a sequence, the component of an archive."""

    file: str
    offset: int | None = None
    size: int | None = None
    part: str = ""


Reading: TypeAlias = Generator[PythonJob | CompiledJob, None, list[Batch]]
"""Jobs that read samples. The generator returns the outputs."""


class ReaderOperator(Operator):
    """Base class of all readers: a sample order over a data set of known size."""

    eager = True
    traits = Trait.ACTS_OUTSIDE | Trait.READS_FILES
    stateful = True
    replacing: Replaces | None = None
    """The replacements of bad samples (``runtime/repairs``); None: errors are raised."""
    pre_permute: ClassVar[bool] = True
    """Whether `random_shuffle` also permutes the whole list once, before mixing it with its buffer."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self.containers: Sequence[int] | None = None
        self._order: SampleOrder | None = None
        # Positions after the hinted batch, and after all batches with hints.
        self._hinted: tuple[OrderPosition, OrderPosition] | None = None
        self._remote_ahead: BatchesAhead[Any] | None = None
        self._fetches = Fetches(may_redirect(spec, environment))
        self._lock = threading.Lock()
        if spec.given("shuffle_after_epoch_seed") and not self._optional("shuffle_after_epoch"):
            warn("`shuffle_after_epoch_seed` has no effect when `shuffle_after_epoch` is False", UserWarning)
        if spec.constant("prefetch_queue_depth") < 1:
            raise ValueError(f"`prefetch_queue_depth` must be at least 1, got {spec.constant('prefetch_queue_depth')}")
        self._compile()
        if spec.given("tensor_init_bytes"):
            reserve(environment, spec.constant("tensor_init_bytes"), "tensor_init_bytes")
        if not spec.constant("lazy_init"):
            self.order  # noqa: B018  discover the data set now

    @property
    def may_wait(self) -> bool:
        return self._order is None or self.any_remote

    @property
    def in_order(self) -> bool:
        return True

    @property
    def any_remote(self) -> bool:
        """Whether some of the files are remote, after `discover`."""
        return True

    def _optional(self, name: str, default: Any = False) -> Any:
        """An argument that not every reader has; None if this reader has none."""
        return self.spec.constant(name) if name in self.schema.by_name else default

    # --- implemented by each reader

    def discover(self) -> int:
        """Find the data set. Returns its number of samples.

        A reader whose records stay together when files are shuffled sets ``self.containers`` to the number of records of each file.
        """
        raise TypeError("abstract")

    def origin_of(self, index: int) -> Origin:
        """The file or record of sample `index` of the data set."""
        raise TypeError("abstract")

    def origins_of(self, indices: Sequence[int]) -> list[Origin]:
        """:meth:`origin_of` for several samples."""
        return [self.origin_of(index) for index in indices]

    def stretches(self, index: int) -> list[Origin]:
        """The files, or the bytes of files, that a sample is read from. Their names are those that are opened."""
        return [self.origin_of(index)]

    def known(self, indices: np.ndarray) -> dict[int, Batch]:
        """Outputs that are known without reading files, by their number: for example labels."""
        return {}

    def identity(self) -> Iterable[bytes | np.ndarray]:
        """The identity of this data set: names of the samples in their order. Empty: it cannot be identified."""
        return ()

    # --- order and position

    @property
    def order(self) -> SampleOrder:
        """The index stream, made at first use."""
        if self._order is None:
            with self._lock:  # the user's thread may ask for metadata while a stage thread discovers the data set
                if self._order is None:
                    with self._fetches.on_this_thread():
                        self._order = self._new_order(self.discover())
        return self._order

    def _new_order(self, count: int) -> SampleOrder:
        constant = self.spec.constant
        sharding = Sharding(constant("num_shards"), constant("shard_id"), constant("stick_to_shard"), constant("pad_last_batch"))
        shuffling = Shuffling(
            constant("random_shuffle"), constant("initial_fill"), self.spec.seed or 0, self._optional("shuffle_after_epoch"),
            self._optional("shuffle_after_epoch_seed", None), self.environment.checkpointing, self.pre_permute, self.containers,
        )  # fmt: skip
        return SampleOrder(count, sharding, shuffling)

    def ahead(self, draw: Draw) -> np.ndarray | None:
        """The indices for which the system gets hints, `prefetch_queue_depth` - 1 batches ahead of `draw`. None without such a queue.

        After a change of batch size a hint may be wrong, which is harmless. Hints of the previous batch are not repeated.
        """
        depth, samples = self.spec.constant("prefetch_queue_depth"), len(draw.indices)
        wanted = slice(draw.first, draw.first + samples)
        if depth == 1:
            return None
        follows = self._hinted is not None and self._hinted[0] == draw.begin
        begin = self._hinted[1] if follows and self._hinted is not None else draw.behind
        drawn = []
        for _ in range(1 if follows else depth - 1):
            indices, begin = self.taken(begin, draw.whole or samples)
            drawn.append(indices[wanted])
        self._hinted = draw.behind, begin
        return np.concatenate(drawn)

    def fetched(self, draw: Draw, fetch: Callable[[np.ndarray], _Made]) -> _Made:
        """``fetch(indices)`` of a remote data set for the current batch. `prefetch_queue_depth` batches are fetched at a time.

        `fetch` must always be the same pure function of the indices. It runs on its own threads.
        """
        if self._remote_ahead is None:
            depth = self.spec.constant("prefetch_queue_depth")
            self._remote_ahead = BatchesAhead(self.order if depth > 1 else None, depth, fetch, self._fetches)
        found: _Made = self._remote_ahead.get(draw.indices, draw.behind, draw.first, draw.whole)
        return found

    def _compile(self) -> None:
        """Import the kernels of hints and of shuffling now, on the building thread."""
        if self.spec.constant("prefetch_queue_depth") > 1 or self.spec.constant("read_ahead"):
            from .files.file_kernels import advise_step

            advise_step.compile()
        if not (self.spec.constant("random_shuffle") or self._optional("shuffle_after_epoch")):
            return
        kernels = load_kernels()
        wanted = [kernels.permute64] if self._optional("shuffle_after_epoch") else []
        if self.spec.constant("random_shuffle"):
            wanted += [kernels.permute32, kernels.draw_shuffled]
        for kernel in wanted:
            kernel.compile()

    @property
    def start(self) -> OrderPosition:
        return OrderPosition(engine_from_seed(self.spec.seed or 0), 0, 0)

    def taken(self, position: OrderPosition, samples: int) -> tuple[np.ndarray, OrderPosition]:
        """The indices of a whole iteration at `position`, with replacements for bad ones, and the position behind it."""
        indices, behind = self.order.take(position, samples)
        return (indices if self.replacing is None else self.replacing.applied(position, indices)), behind

    def draw(self, iteration: Iteration, samples: int) -> Draw:
        """The samples of this iteration."""
        first, whole = iteration.first, iteration.whole
        indices, behind = self.taken(iteration.position, whole or samples)  # at a shard's end padding depends on where batches end
        if whole:
            return Draw(iteration.position, indices[first : first + samples], behind, first, whole)
        return Draw(iteration.position, indices, behind, following=iteration.following)

    def after(self, position: OrderPosition, samples: int) -> OrderPosition:
        return self.order.after(position, samples)

    def moved(self, position: OrderPosition, iterations: int, samples: int) -> OrderPosition:
        return self.order.moved(position, iterations, samples)

    def save(self, position: OrderPosition) -> list[int]:
        return list(position)

    def load(self, data: object) -> OrderPosition:
        if not isinstance(data, list) or len(data) != 3 or not all(isinstance(value, int) for value in data):
            raise ValueError(f"{data!r} is not the position of a reader; expected three integers: engine, epoch, age")
        return self.order.checked(data)

    def digest(self) -> str | None:
        """A digest of the names of the samples in their order. It changes if files are renamed, replaced or reordered."""
        self.order  # noqa: B018  the data set is found now, if it was not
        parts = list(self.identity())
        return digest(parts) if parts else None

    def meta(self) -> dict[str, int]:
        """See ``Pipeline.reader_meta``."""
        return self.order.meta()

    def stop(self) -> None:
        self._fetches.stop()

    def close(self) -> None:
        self._fetches.close()

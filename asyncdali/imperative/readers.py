"""Readers as classes of dynamic mode.

A reader's only state is its position (an immutable value of the reader's operator), and how much of an epoch it has read. Every read passes
the position to a brick and then moves on, so a reader can be saved, restored and read ahead at any sample.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from ..batch import Batch as Samples
from ..errors import call_error
from ..operators.base import REQUIRED, Schema
from ..readers.base import ReaderOperator
from ..system import forks
from .bricks import long_calls, results
from .calls import OperatorFunction, checked_size, engine_of, finished, is_data
from .captures import CapturedLoop, already_made, entered, known
from .contexts import EvalContext
from .conversion import make_tensor
from .devices import device
from .dtypes import DType, type_id
from .modes import EvalMode
from .rng import get_default_rng
from .spellings import READERS, missing_attribute, spelled
from .states import ReaderState, Restorable
from .values import Batch, DynamicValue, Tensor, repeated_part
from .work import DelayedCall, KnownOutput, users_line, without_frames

if TYPE_CHECKING:
    from ..sampling.order import OrderPosition
    from .bricks import Brick

LAST_BATCHES = ("wrap", "partial", "drop")
"""What happens with the samples at the end of an epoch that fill no batch."""

_BELONGS = ("reader", "samples", "num_shards", "shard_id", "stick_to_shard", "pad_last_batch", "shuffling", "seed", "data set")


class DynamicReader(Restorable):
    """The base of all readers. ``asyncdali.dynamic.readers`` has one class for each format.

    Args:
        max_batch_size: the largest batch, and the size of batches that are read without one.
        name: a name for messages.
        device: "cpu" or "gpu".
        num_inputs: readers have no inputs: None or 0.
        enable_checkpointing: whether :meth:`get_state` may be called.

    Raises:
        TypeError: an argument that does not exist, is missing or has the wrong class.
        ValueError: a wrong value, such as a shard that does not exist.
        OSError, RuntimeError: the data set cannot be found (unless ``lazy_init=True``).
    """

    schema: ClassVar[Schema]
    function: ClassVar[OperatorFunction]

    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: object = "cpu", num_inputs: int | None = None, *,
        enable_checkpointing: bool = False, _backend: object = None, **arguments: object,
    ):  # fmt: skip
        title = type(self).__name__
        if max_batch_size is not None and (isinstance(max_batch_size, (bool, str)) or not hasattr(max_batch_size, "__index__")):
            raise TypeError(
                f"the first argument of {title} is max_batch_size, an integer, got {max_batch_size!r}; name other arguments{self._paths()}"
            )
        self._most = None if max_batch_size is None else _positive(max_batch_size, "max_batch_size")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of a reader is a string, got {type(name).__name__}")
        if num_inputs not in (None, 0):
            raise ValueError(f"{title} has no inputs, got num_inputs={num_inputs!r}")
        self._name = name
        self._lock = threading.RLock()
        self._place, self._number = self._checked_device(device)
        given = self._checked_seed(arguments.pop("seed", None))
        self._seeded = given is not None
        unseeded = _seed_of_default(self.schema.name) if arguments.get("random_shuffle") else 0
        self._seed = unseeded if given is None else given
        self._constants: dict[str, object] = {}
        self._data: dict[str, Tensor] = {}
        self._sort(arguments)
        _check_shards(self._constants)
        self._bricks: dict[tuple[str, ...], Brick] = {}
        self._context: EvalContext | None = None
        self._checkpointing = bool(enable_checkpointing)
        self._loops: dict[bool, CapturedLoop] = {}
        """Captured loops: the one that the program asked for (True), and the one that the reader begins by itself."""
        self._pid = forks.pid
        self._names: str | None = None
        """A digest of the data set, once it was needed."""
        self._kind = ""
        self._size: int | None = None
        self._epochs = 0
        self._ahead: _Ahead | None = None
        """The item that a loop has read ahead."""
        self._progress: tuple[int, int] | None = None
        self._resume: tuple[int, int] | None = None
        self._operator: ReaderOperator = self._reading(self._brick(tuple(self._data)))
        self._position: Any = self._operator.start

    # --- construction

    def _paths(self) -> str:
        names = [f"{name}=..." for name, arg in self.function.arguments.items() if arg.path]
        return f": {type(self).__name__}({' or '.join(names)})" if names else ""

    def _checked_device(self, given: object) -> tuple[str, int]:
        chosen = device(given)
        if chosen is None or chosen.device_type == "cpu":
            if "cpu" not in self.schema.devices:
                raise ValueError(f"{type(self).__name__} does not run on the CPU; give device='gpu'")
            return "cpu", 0
        if "gpu" not in self.schema.devices:
            raise ValueError(f"{type(self).__name__} does not run on a GPU; it runs on {', '.join(self.schema.devices)}")
        return "gpu", chosen.device_id or 0

    def _checked_seed(self, given: object) -> int | None:
        if given is None:
            return None
        if isinstance(given, bool) or not hasattr(given, "__index__"):
            raise TypeError(f"{type(self).__name__}: the seed is an integer, got {given!r}")
        number = operator.index(given)
        return None if number == -1 else number

    def _sort(self, arguments: Mapping[str, object]) -> None:
        """Divide the arguments into constants (`_constants`) and tensors (`_data`). Raises the errors of the constructor."""
        title = type(self).__name__
        for name, value in arguments.items():
            arg = self.function.arguments.get(name)
            if arg is None and name not in self.schema.deprecated:
                wrong = READERS.get(name)
                raise TypeError(f"{title} has no argument {name!r}: {wrong}" if wrong else f"{title}: {self.function.unknown(name)}")
            if value is None:
                continue
            if arg is None:
                self._constants[name] = value  # the graph warns, and takes it by its new name
                continue
            if isinstance(value, Batch):
                raise ValueError(f"{title}: the argument {name!r} is a Batch; a reader is made with one value for all samples")
            if arg.tensor and is_data(value):
                self._data[name] = value if isinstance(value, Tensor) else make_tensor(value, None, None, None)
            elif isinstance(value, DynamicValue):
                raise TypeError(f"{title}: the argument {name!r} is one constant ({arg.describe()}); give plain Python values")
            elif name in self.function.dtypes and not isinstance(value, int):
                self._constants[name] = [type_id(item) for item in value] if isinstance(value, (list, tuple)) else type_id(value)
            else:
                self._constants[name] = value.type_id if isinstance(value, DType) else value
        for name in self.function.required:
            if name not in self._constants and name not in self._data:
                raise TypeError(f"{title}: the argument {name!r} is missing")

    def _brick(self, named: tuple[str, ...]) -> Brick:
        found = self._bricks.get(named)
        if found is None:
            engine = engine_of(EvalContext.current(), self._place, self._number)
            given = {**self._constants, "lazy_init": True}  # until its environment is complete
            if self._name is not None:
                given["name"] = self._name
            found = engine.brick(self.schema, self._place, given, named, [], self._seed)
            reading = self._reading(found)
            if self._checkpointing:
                reading.environment = replace(reading.environment, checkpointing=True)
            if not self._constants.get("lazy_init"):
                try:
                    reading.order  # noqa: B018  find the data set now
                except Exception as error:
                    raise call_error(self.function.path, self.schema.name, error) from error
            self._bricks[named] = found
        return found

    @staticmethod
    def _reading(brick: Brick) -> ReaderOperator:
        """The operator that reads."""
        (built,) = brick.stateful
        assert isinstance(built.operator, ReaderOperator)
        return built.operator

    @property
    def output_count(self) -> int:
        """Number of outputs."""
        return len(self._brick(tuple(self._data)).plan.outputs)

    @property
    def output_names(self) -> list[str] | None:
        """Names of the outputs, if items are dictionaries."""
        return self._brick(tuple(self._data)).names

    def __getattr__(self, name: str) -> NoReturn:
        missing_attribute(self, name, READERS)

    def __iter__(self) -> NoReturn:
        raise TypeError(f"'{type(self).__name__}' object is not iterable: {READERS['iter']}")

    # --- reading

    @spelled(
        compile="use capture=True", drop_last="use last_batch='drop'", last_batch_policy="use last_batch='wrap', 'partial' or 'drop'",
        shuffle="give random_shuffle=True to the reader",
    )  # fmt: skip
    def next_epoch(
        self, batch_size: int | None = None, ctx: EvalContext | None = None, capture: bool = False, last_batch: str = "wrap"
    ) -> ReaderEpoch:
        """Iterate one epoch: tuples (dicts where outputs have names) of Batches, or of Tensors if there is no batch size.

        Args:
            batch_size: samples in a batch; by default `max_batch_size`, and single samples if that was not given either.
            ctx: the context that reads; by default the current one of the thread that asks for an item.
            capture: compute the operators that the loop calls one step ahead; see docs/dynamic.md. In mode `eager`, loops over batches
                whose steps are alike and have long calls are captured anyway.
            last_batch: what happens where the samples do not fill the last batch. "wrap": it is filled with the first samples of the next
                epoch, which begins behind them. "partial": it is smaller. "drop": its samples are skipped.

        Raises:
            ValueError: another batch size than before, one above `max_batch_size` or below 1, or an unknown `last_batch`.
            TypeError: a batch size that is no integer, or a `ctx` that is no context.
        """
        size = self._epoch_size_of(batch_size)
        if capture and size is None:
            raise ValueError("a captured loop needs a batch size: give batch_size, or max_batch_size to the constructor")
        if ctx is not None and not isinstance(ctx, EvalContext):
            raise TypeError(f"ctx is an EvalContext, got {type(ctx).__name__}")
        if last_batch not in LAST_BATCHES:
            raise ValueError(f"last_batch is one of {', '.join(map(repr, LAST_BATCHES))}, got {last_batch!r}")
        return ReaderEpoch(self, size, ctx, last_batch, capture)

    def _captured_loop(self, asked: bool) -> CapturedLoop:
        """The loop that computes ahead; a forked child has no threads of its parent, and gets another one."""
        if self._pid != forks.pid:
            self._pid, self._loops = forks.pid, {}
        found = self._loops.get(asked)
        if found is None:
            found = self._loops[asked] = CapturedLoop(asked)
        return found

    def _epoch_size_of(self, batch_size: object) -> int | None:
        """The checked batch size of an epoch; None: single samples."""
        if batch_size is None:
            return self._most
        size = _positive(batch_size, "batch_size")
        if self._most is not None and size > self._most:
            raise ValueError(f"batch_size is {size}, more than max_batch_size={self._most}")
        if self._kind == "batches" and size != self._size:
            raise ValueError(f"batch_size is {size}, but this reader has read batches of {self._size}; make another reader")
        return size

    def __call__(self, *, batch_size: int | None = None, **arguments: object) -> Any:
        """The next sample as Tensors, or the next `batch_size` samples as Batches. There is no end: epochs follow one another.

        Args:
            batch_size: samples, at most `max_batch_size`.
            arguments: arguments that may be Tensors or Batches (`roi_start`, ...), if they were not given to the constructor.
        """
        size = None if batch_size is None else _positive(batch_size, "batch_size")
        if size is not None and self._most is not None and size > self._most:
            raise ValueError(f"batch_size is {size}, more than max_batch_size={self._most}")
        data = self._call_data(arguments, size)
        self._use("calls")
        count = 1 if size is None else size
        kind: type[DynamicValue] = Tensor if size is None else Batch
        context = EvalContext.current()
        with self._lock:
            brick = self._brick(tuple(data))
            engine = engine_of(context, self._place, self._number)
            position = self._position
            if EvalMode.current() is EvalMode.deferred:
                self._position = self._operator.after(position, count)
                work = DelayedCall(
                    lambda: self._read(brick, data, position, count, engine),
                    [KnownOutput(device=brick.output_device) for _ in brick.plan.outputs], users_line(),
                )  # fmt: skip
                context.waits(work)
                return results(brick, [kind._later(work, k) for k in range(len(brick.plan.outputs))])
            made = self._read_and_move(brick, data, count, engine)
        return results(brick, [kind._of(samples) for samples in made])

    def _call_data(self, arguments: Mapping[str, object], size: int | None) -> dict[str, DynamicValue]:
        """The tensor arguments of the constructor and of a call, by name. ValueError for a Batch of another size than the call's."""
        data: dict[str, DynamicValue] = dict(self._data)
        for name, value in arguments.items():
            arg = self.function.arguments.get(name)
            if arg is None or not arg.tensor:
                why = "does not exist" if arg is None else "belongs to the constructor"
                raise TypeError(f"{type(self).__name__}(): the argument {name!r} {why}")
            if value is None:
                continue
            if name in data or name in self._constants:
                raise ValueError(f"{type(self).__name__}(): the argument {name!r} was given to the constructor, too")
            data[name] = value if isinstance(value, DynamicValue) else make_tensor(value, None, None, None)
            if isinstance(value, Batch) and value.batch_size != (1 if size is None else size):
                raise ValueError(f"the argument {name!r} has {value.batch_size} samples, the batch has {1 if size is None else size}")
        return data

    def _use(self, kind: str, size: int | None = None) -> None:
        """Samples, batches and calls are not mixed, and batches keep their size."""
        if self._kind and self._kind != kind:
            raise RuntimeError(
                f"this reader has been used for {_KINDS[self._kind]}, so it cannot be used for {_KINDS[kind]}; make another reader"
            )
        if self._kind == "batches" and size != self._size:
            raise ValueError(f"batch_size is {size}, but this reader has read batches of {self._size}; make another reader")
        self._kind, self._size = kind, size

    def _read(self, brick: Brick, data: Mapping[str, DynamicValue], position: object, count: int, engine: Any) -> list[Samples]:
        """The samples at `position`."""
        given = []
        for value in data.values():
            samples = value._samples()
            given.append(repeated_part(samples, count) if isinstance(value, Tensor) else samples)
        return finished(brick, brick.run(engine, given, count, position))

    def _read_and_move(self, brick: Brick, data: Mapping[str, DynamicValue], count: int, engine: Any) -> list[Samples]:
        """Read, and move the position behind the samples. An error of the read moves the position, too; an interrupt does not."""
        position = self._position
        try:
            made = self._read(brick, data, position, count, engine)
        except Exception:
            self._position = self._operator.after(position, count)
            raise
        self._position = self._operator.after(position, count)
        return made

    # --- epochs

    def _shard_samples(self, epochs: int) -> int:
        """Number of samples of an epoch that begins after `epochs` others.

        As in DALI, the number of finished epochs selects the shard; the position does not.
        """
        order = self._operator.order
        return order.padded_shard_size if order.pad_last_batch else order.shard_size(epochs)

    def _rest_of_shard(self, position: Any) -> int:
        """Samples from a position to the end of the shard."""
        order = self._operator.order
        size = order.padded_shard_size if order.pad_last_batch else order.shard_size(position.epoch)
        return size - int(position.age)

    def __len__(self) -> int:
        """Number of samples in the next epoch."""
        return self._shard_samples(self._epochs)

    def get_metadata(self, batch_size: int | None = None) -> dict[str, int]:
        """Sizes and shards: `epoch_size`, `epoch_size_padded`, `number_of_shards`, `shard_id`, `pad_last_batch`, `stick_to_shard`.

        `batch_size` has no influence, and asking changes nothing.
        """
        if batch_size is not None:
            _positive(batch_size, "batch_size")
        return self._operator.meta()

    # --- states

    @property
    def is_used(self) -> bool:
        """Whether something was read, or a state was restored."""
        return bool(self._kind)

    @property
    def keeps_states(self) -> bool:
        """Whether checkpointing is enabled."""
        return self._checkpointing

    def enable_checkpointing(self) -> None:
        """Allow :meth:`get_state`. RuntimeError if something was read. As in DALI, `shuffle_after_epoch` has another order then."""
        if self._checkpointing:
            return
        if self._kind:
            raise RuntimeError("checkpointing cannot be enabled after the first item; give enable_checkpointing=True to the constructor")
        self._checkpointing = True
        if self._constants.get("shuffle_after_epoch"):
            self._bricks = {}
            self._operator = self._reading(self._brick(tuple(self._data)))

    def _belongs(self) -> dict[str, object]:
        if self._names is None:
            self._names = self._operator.digest()
        order = self._operator.order
        optional = {name: self._constants.get(name) for name in ("shuffle_after_epoch", "shuffle_after_epoch_seed")}
        shuffling = {
            "random_shuffle": bool(self._constants.get("random_shuffle")), "initial_fill": self._constants.get("initial_fill", 1024),
            **{name: value for name, value in optional.items() if value is not None},
        }  # fmt: skip
        meta = order.meta()
        values = (
            self.schema.name, order.count, order.num_shards, order.shard_id, meta["stick_to_shard"], meta["pad_last_batch"], shuffling,
            self._seed, self._names,
        )  # fmt: skip
        return dict(zip(_BELONGS, values, strict=True))

    def get_state(self, *, cuda_stream: object = None) -> ReaderState:
        """The position, as an object with a text. It waits for nothing: calls take their samples when they are made.

        RuntimeError without ``enable_checkpointing=True``.
        """
        if not self._checkpointing:
            raise RuntimeError("this reader has no checkpoints: give enable_checkpointing=True to its constructor")
        return self.state_now()

    def state_now(self) -> ReaderState:
        """The position, also if checkpointing is not enabled, in the order without checkpoints."""
        with self._lock:
            progress = self._progress if self._resume is None else self._resume
            return ReaderState(self._operator.save(self._position), progress, self._epochs, self._belongs())

    def check_state(self, state: object) -> tuple[ReaderState, OrderPosition, int]:
        """The state, the position and the seed that :meth:`set_state` would use. Raises its errors; nothing is changed."""
        parsed = ReaderState.parse(state)
        if self._kind:
            raise RuntimeError("the state of a reader cannot be set after its first item; make another reader")
        mine, others = self._belongs(), parsed.belongs
        if not self._seeded:
            mine["seed"] = others.get("seed")
        if mine != others or not isinstance(mine["seed"], int):
            raise ValueError(f"the state belongs to another reader: {_differences(mine, others)}")
        position = self._operator.load(parsed.position)
        if parsed.epochs < 0 or (parsed.progress is not None and min(parsed.progress) < 0):
            raise ValueError("this text is not the state of a reader: it has negative counts")
        return parsed, position, mine["seed"]

    def set_state(self, state: object) -> None:
        """Go to a state or to its text (str or bytes); checkpointing is enabled. An epoch that was interrupted is continued.

        Raises:
            TypeError: another class.
            ValueError: no state, or one of another data set, shard, order or seed.
            RuntimeError: something was read before.
        """
        with self._lock:
            self.check_state(state)
            self.enable_checkpointing()
            self.go_to(state)

    def go_to(self, state: object) -> None:
        """Go to a state without enabling checkpointing; errors of :meth:`set_state`."""
        with self._lock:
            parsed, position, seed = self.check_state(state)
            self._seed = seed
            self._position, self._resume, self._epochs = position, parsed.progress, parsed.epochs

    @property
    def captured_calls(self) -> int:
        """Number of calls in captured loops that were computed ahead."""
        return sum(loop.served for loop in self._loops.values())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} reader cannot be pickled or copied: make one in each process, with its own shard_id; "
            "set_state(reader.get_state()) continues a reader"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} reader{f' {self._name!r}' if self._name else ''}>"


_KINDS = {"samples": "epochs of samples", "batches": "epochs of batches", "calls": "calls"}


class _Ahead(NamedTuple):
    """An item that is read ahead: its position and number of samples, and the reading."""

    position: object
    samples: int
    work: DelayedCall


class ReaderEpoch:
    """The items of one epoch. ``len()`` is the number of items left."""

    def __init__(
        self, reader: DynamicReader, size: int | None, context: EvalContext | None, last_batch: str, captured: bool
    ):  # fmt: skip
        self._reader, self._size, self._last_batch = reader, size, last_batch
        self._captured = captured
        self._loop: CapturedLoop | None = None
        self._body = 0, 0
        """The thread that got the last item, and the long calls of that thread until then."""
        self._context = context
        self._total = -1
        """Samples in all; -1: nothing was read."""
        self._done = 0
        self._over = False

    def __iter__(self) -> ReaderEpoch:
        return self

    def _span(self) -> tuple[int, int]:
        """Number of samples of this epoch that were read, and number of all its samples."""
        if self._total >= 0:
            return self._done, self._total
        reader = self._reader
        if reader._resume is not None:
            return reader._resume
        return 0, self._samples_from(reader._position, reader._epochs)

    def _samples_from(self, position: object, epochs: int) -> int:
        """Samples of an epoch that begins at a position after `epochs` others."""
        reader = self._reader
        return reader._shard_samples(epochs) if self._last_batch == "wrap" else reader._rest_of_shard(position)

    def __len__(self) -> int:
        if self._over:
            return 0
        done, total = self._span()
        left, each = max(total - done, 0), self._size or 1
        return left // each if self._last_batch == "drop" else -(-left // each)

    def __next__(self) -> Any:
        """The next item; StopIteration at the end of the epoch."""
        if self._over:
            raise StopIteration
        reader = self._reader
        with reader._lock:
            reader._use("samples" if self._size is None else "batches", self._size)
            if self._total < 0:
                self._done, self._total = self._span()
                reader._resume = None
            count = self._count(self._total - self._done)
            if not count:
                self._end(self._total - self._done)
                raise StopIteration
            return self._item(count)

    def _count(self, left: int) -> int:
        """Samples of the next item if the epoch has `left` more; 0 at the end."""
        each = self._size or 1
        if left <= 0 or (self._last_batch == "drop" and left < each):
            return 0
        return min(each, left) if self._last_batch == "partial" else each

    def _item(self, count: int) -> object:
        reader = self._reader
        brick = reader._brick(tuple(reader._data))
        self._loop = self._loop_of_step()
        work = self._read_ahead(count)
        behind = reader._operator.after(reader._position, count)
        engine = engine_of(self._context or EvalContext.current(), reader._place, reader._number)
        if work is None:
            try:
                with entered(self._context):
                    work = already_made(reader._read(brick, reader._data, reader._position, count, engine))
            except Exception:  # the item is over: the next one is asked for next
                self._move(behind, count)
                raise
        if self._loop is not None:
            self._begin_step(self._loop, work, brick, engine, behind, count)
        kind: type[DynamicValue] = Tensor if self._size is None else Batch
        values: list[Any] = [kind._later(work, k) for k in range(len(work.declared))]
        made = tuple(values) if brick.names is None else dict(zip(brick.names, values, strict=True))
        self._body = threading.get_ident(), long_calls.count
        self._move(behind, count)  # last of all: until then an interrupt loses nothing
        return made

    def _move(self, position: object, count: int) -> None:
        """Count `count` samples as read, and set the position behind them."""
        reader = self._reader
        self._done += count
        reader._position, reader._progress = position, (self._done, self._total)

    def _loop_of_step(self) -> CapturedLoop | None:
        """The loop that computes ahead: the program asked for it, or the body of this thread has long calls in mode `eager`."""
        reader, loop, me = self._reader, self._loop, threading.get_ident()
        if reader._pid != forks.pid:
            reader._ahead = loop = None
        if self._captured:
            return reader._captured_loop(True) if loop is None else loop
        thread, before = self._body
        if thread in (0, me) and self._size is not None and EvalMode.current() is EvalMode.eager:
            if loop is None and (False in reader._loops or (thread and long_calls.count > before)):
                loop = reader._captured_loop(False)
            if loop is None or loop.is_possible:
                return loop
        if loop is not None:
            loop.end()
        return None

    def _read_ahead(self, count: int) -> DelayedCall | None:
        """The item that was read ahead, if it is the one wanted, and was read without an error."""
        reader = self._reader
        ahead, reader._ahead = reader._ahead, None
        if ahead is None or ahead.position != reader._position or ahead.samples != count:
            return None
        try:
            ahead.work.declared = known(ahead.work.batches())
        except Exception:  # it is raised by reading the item again
            return None
        return ahead.work

    def _begin_step(self, loop: CapturedLoop, work: DelayedCall, brick: Brick, engine: Any, position: Any, samples: int) -> None:
        """Begin a step of the loop, whose item has `samples` samples, and read the next item ahead, which is at `position`."""
        reader, left, following = self._reader, self._total - self._done - samples, None
        count = self._count(left)
        if not count and loop.asked:  # the first item of the next epoch
            position = reader._operator.after(position, left) if left > 0 else position
            count = self._count(self._samples_from(position, reader._epochs + 1))
        if count:
            data = reader._data
            following = DelayedCall(lambda: reader._read(brick, data, position, count, engine), [], "an item that was read ahead")
            reader._ahead = _Ahead(position, count, following)
        loop.begin(work, following, brick)

    def _end(self, left: int) -> None:
        reader = self._reader
        if left > 0:
            reader._position = reader._operator.after(reader._position, left)
        reader._epochs += 1
        reader._progress = None
        self._over, loop, self._loop = True, self._loop, None
        if loop is not None:
            loop.pause()

    def close(self) -> None:
        """End the iteration; the reader stays where it is."""
        self._over = True
        self._drop()

    def _drop(self) -> None:
        """Forget what was computed ahead."""
        if self._loop is not None:
            self._loop.end()
            self._reader._ahead = self._loop = None

    def __del__(self) -> None:
        self._drop()


def _positive(given: object, what: str) -> int:
    count = checked_size(given) if what == "batch_size" else operator.index(given)  # type: ignore[arg-type]
    if count < 1:
        raise ValueError(f"{what} is {count}; it must be at least 1")
    return count


def _check_shards(constants: Mapping[str, object]) -> None:
    """ValueError for a shard that does not exist, also if the data set is looked for later."""
    shards, shard = constants.get("num_shards", 1), constants.get("shard_id", 0)
    if isinstance(shards, (int, np.integer)) and isinstance(shard, (int, np.integer)) and not 0 <= shard < shards:
        raise ValueError(f"shard_id is {shard}; with num_shards={shards} it must be from 0 to {shards - 1}")


def _seed_of_default(name: str) -> int:
    """A seed made of the thread's default generator, from which nothing is drawn. Readers of one kind made in a row shuffle alike."""
    text = f"{get_default_rng().get_state()} {name}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1


def _differences(mine: Mapping[str, object], others: Mapping[str, object]) -> str:
    names = [name for name in _BELONGS if mine.get(name) != others.get(name)]
    return "; ".join(f"{name} is {mine.get(name)!r} here, {others.get(name)!r} there" for name in names)


# ------------------------------------------------------------------------------------------------------------ classes


def is_reader(schema: Schema) -> bool:
    """Whether dynamic mode has a class for an operator."""
    return schema.module in ("readers", "experimental.readers") and not schema.graphs_only


def constructor_signature(function: OperatorFunction) -> inspect.Signature:
    """Positions of the first four arguments as in DALI, then keywords in alphabetical order."""
    kinds = inspect.Parameter
    parameters = [kinds("max_batch_size", kinds.POSITIONAL_OR_KEYWORD, default=None)]
    parameters += [kinds("name", kinds.POSITIONAL_OR_KEYWORD, default=None), kinds("device", kinds.POSITIONAL_OR_KEYWORD, default="cpu")]
    parameters.append(kinds("num_inputs", kinds.POSITIONAL_OR_KEYWORD, default=None))
    for name in sorted([*function.arguments, *function.schema.deprecated, "seed"]):
        default = function.arguments[name].default if name in function.arguments else None
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, default=kinds.empty if default is REQUIRED else default))
    parameters.append(kinds("enable_checkpointing", kinds.KEYWORD_ONLY, default=False))
    return inspect.Signature(parameters)


def constructor_docstring(function: OperatorFunction) -> str:
    """The documentation of a reader, from its declaration."""
    schema = function.schema
    lines = [inspect.cleandoc(schema.doc), "", f"Devices: {', '.join(schema.devices)}.", "", "Args:"]
    lines.append("    max_batch_size: the largest batch, and the default of `batch_size`.")
    lines += ["    name: a name for messages.", '    device: "cpu" or "gpu".', "    num_inputs: None or 0."]
    for name in sorted(function.arguments):
        arg = function.arguments[name]
        default = "required" if arg.default is REQUIRED else f"default {arg.default!r}"
        lines.append(f"    {name} ({arg.describe().replace('DataNode', 'Tensor or Batch')}; {default}): {arg.doc}")
    lines.append("    seed: of the shuffle; by default it is made of the thread's default generator, without drawing from it.")
    lines.append("    enable_checkpointing: whether `get_state` may be called.")
    return "\n".join(lines)


def make_reader(schema: Schema, module: str) -> type[DynamicReader]:
    """The class of a reader, for the module `module`."""
    function = OperatorFunction(schema)
    name = schema.class_name
    function.path = f"ndd.{schema.module}.{name}"

    @without_frames
    def __init__(self: DynamicReader, *args: Any, **kwargs: Any) -> None:
        DynamicReader.__init__(self, *args, **kwargs)

    arguments = constructor_signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = arguments.replace(parameters=[own, *arguments.parameters.values()])  # type: ignore[attr-defined]
    body = {"schema": schema, "function": function, "__module__": module, "__doc__": constructor_docstring(function),
            "__signature__": arguments, "__init__": __init__}  # fmt: skip
    return type(name, (DynamicReader,), body)


def reader_makers(schemas: Iterable[Schema]) -> dict[str, Callable[[str], object]]:
    """For each reader a function that makes its class, given the name of the module."""
    return {f"{schema.module}.{schema.class_name}": functools.partial(make_reader, schema) for schema in schemas if is_reader(schema)}

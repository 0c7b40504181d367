"""The order of a reader's samples: an index stream, computed on indices alone and identical to DALI 2.4's.

The data set is divided into shards. A reader reads one shard after another (or the same shard in every epoch). Each visit is a
*shard-epoch*. With ``random_shuffle`` a buffer of `initial_fill` samples mixes a shard-epoch, but never two of them. What a shard-epoch
delivers depends only on its list of samples and on the engine's state at its start. So that state, the number of finished shard-epochs and
the number of samples delivered since then are the whole position (:class:`OrderPosition`)::

    order = SampleOrder(1000, shuffling=Shuffling(random_shuffle=True, seed=7))
    indices, position = order.take(order.start, 64)       # int64[64], and three integers
    indices, position = order.take(position, 64)          # the next 64
    order.after(order.start, 128) == position             # the same position, without indices

A position is an immutable value and an order has no mutable state: any batch can be requested at any time, in any thread. An order caches
its last visits, because a batch is usually followed by the next one. For the same reason a batch that follows another is drawn together
with up to 15 later ones. Drawn between other work, with cold caches, each would take four times as long. Without the buffer every answer
has a closed form. With the buffer, a batch that does not follow another replays at most one shard-epoch in compiled code. Only readers
that shuffle need compiled code.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np

from ..compiled.addresses import address_of
from . import shuffle_jumps
from .order_tables import SHUFFLE
from .seeds import seed_sequence
from .sharding import Sharding, shard_bounds

# Seed of the one-time permutation of shuffled readers, and default of shuffle_after_epoch_seed.
PERMUTATION_SEED = 524287

_RECENT_VISITS = 4
"""Number of cached visits: the reader's, that of the batches ahead, and two for repeated iterations."""

_RECENT_BATCHES = 32
"""Number of batches whose end positions are cached. At a shard's end, finding an end position takes a replay."""

_KNOWN_ENGINES = 1 << 16
"""Number of shard-epochs whose last engine state is cached."""

_SAMPLES_AHEAD, _BATCHES_AHEAD = 4096, 16
"""Most samples and most batches that are drawn at a time for batches that follow one another."""

_MASK32, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_ENGINE_MODULUS = 2147483647


@cache
def load_kernels() -> ModuleType:
    """Import the kernels (and compile them at the first run on a machine). Later calls cost nothing."""
    from . import order_kernels

    return order_kernels


class OrderPosition(NamedTuple):
    """The position of a reader; the same numbers as DALI's loader snapshot.

    `engine` is the shuffle engine's state at the start of the current shard-epoch, `epoch` the number of finished shard-epochs, `age` the
    number of samples delivered since then, padding included.
    """

    engine: int
    epoch: int
    age: int


class ShardRun(NamedTuple):
    """Samples of a batch that belong together: their number, shard-epoch and shard, and whether they only fill the batch up."""

    samples: int
    epoch: int
    shard: int
    padding: bool


def engine_from_seed(seed: int) -> int:
    """First state of the shuffle engine (C++ minstd_rand0, seeded with a seed sequence of the low 32 bits of `seed`)."""
    return seed_sequence([int(seed) & _MASK32], 4)[3] % _ENGINE_MODULUS or 1


# ---------------------------------------------------------------------------------------------------------------------------------
# One visit of a shard
# ---------------------------------------------------------------------------------------------------------------------------------


class _Visit(Protocol):
    """The samples of one shard-epoch, in order of delivery."""

    @property
    def size(self) -> int:
        """Number of samples in the shard."""

    @property
    def last(self) -> int:
        """The index that was delivered last."""

    @property
    def engine(self) -> int:
        """The current state of the shuffle engine."""

    def read(self, out: np.ndarray) -> None:
        """Deliver the next ``len(out)`` samples."""

    def skip(self, count: int) -> None:
        """Skip `count` samples."""


class _StraightVisit:
    """The shard's samples in listed order."""

    def __init__(self, order: np.ndarray | None, start: int, stop: int, engine: int):
        self.size, self.engine = stop - start, engine
        self._order, self._next = order, start

    @property
    def last(self) -> int:
        return self._next - 1 if self._order is None else int(self._order[self._next - 1])

    def read(self, out: np.ndarray) -> None:
        start, self._next = self._next, self._next + len(out)
        out[:] = np.arange(start, self._next) if self._order is None else self._order[start : self._next]

    def skip(self, count: int) -> None:
        self._next += count


class _BufferedVisit:
    """The shard's samples, mixed by a buffer of at most `fill` of them."""

    def __init__(self, order: np.ndarray | None, start: int, stop: int, engine: int, fill: int):
        self.size = stop - start
        slots = min(fill, self.size)
        self._held = np.arange(start, start + slots, dtype=np.int64) if order is None else order[start : start + slots].copy()
        self._order = order  # keeps the source's memory alive
        source = 0 if order is None else order.ctypes.data + 8 * start
        self._table, _ = SHUFFLE.make(
            engine=engine, delivered=0, samples=self.size, slots=slots, oldest=0, held=self._held, source=source, first=start, last=-1
        )
        self._table_address = self._table.ctypes.data
        self._draw = load_kernels().draw_shuffled

    @property
    def last(self) -> int:
        return int(self._table[SHUFFLE.word.last])

    @property
    def engine(self) -> int:
        return int(self._table[SHUFFLE.word.engine])

    def read(self, out: np.ndarray) -> None:
        self._draw(self._table_address, len(out), address_of(out))

    def skip(self, count: int) -> None:
        self._draw(self._table_address, count, 0)


# ---------------------------------------------------------------------------------------------------------------------------------
# The listed order of each epoch
# ---------------------------------------------------------------------------------------------------------------------------------


class _FixedList:
    """One list for all epochs: 0..count-1 (None), or one permutation by a constant seed."""

    def __init__(self, count: int, permuted: bool):
        self._order = None
        if permuted:
            self._order = np.arange(count, dtype=np.int64)
            load_kernels().permute32(self._order.ctypes.data, count, PERMUTATION_SEED)

    def of(self, epoch: int) -> np.ndarray | None:
        """int64[count], or None for the identity. It never changes afterwards."""
        return self._order


class _EpochLists:
    """``shuffle_after_epoch``: a new permutation of the samples for each shard-epoch.

    `restart` permutes the original list each time, so any epoch is computed directly. Otherwise each epoch permutes the previous list, and
    going to epoch e costs e permutations (DALI's order without checkpointing).
    """

    def __init__(self, count: int, seed: int, restart: bool):
        self._count, self._seed, self._restart = count, seed, restart
        self._order, self._epoch = np.arange(count, dtype=np.int64), -1

    def of(self, epoch: int) -> np.ndarray:
        """int64[count]; see :meth:`_FixedList.of`."""
        if epoch == self._epoch:
            return self._order
        if self._restart or epoch < self._epoch:
            self._order = np.arange(self._count, dtype=np.int64)
            self._epoch = epoch - 1 if self._restart else -1
        else:
            self._order = self._order.copy()  # a visit may still read the list of its epoch
        while self._epoch < epoch:
            self._epoch += 1
            _permute_for_epoch(self._order, self._seed, self._epoch)
        return self._order


class _ContainerLists:
    """``shuffle_after_epoch`` of readers with container files: files are permuted, and their records stay together."""

    def __init__(self, sizes: Sequence[int], seed: int):
        self._sizes = np.asarray(sizes, np.int64)
        self._first = np.cumsum(self._sizes) - self._sizes
        self._seed = seed

    def of(self, epoch: int) -> np.ndarray:
        """int64[count]; see :meth:`_FixedList.of`."""
        files = np.arange(len(self._sizes), dtype=np.int64)
        _permute_for_epoch(files, self._seed, epoch)
        sizes = self._sizes[files]
        # Within a file, index minus position in the list is constant. So the list is 0, 1, 2, ... plus the difference of each file.
        shifts = self._first[files] - (np.cumsum(sizes) - sizes)
        order: np.ndarray = np.arange(sizes.sum(), dtype=np.int64) + np.repeat(shifts, sizes)
        return order


def _permute_for_epoch(items: np.ndarray, seed: int, epoch: int) -> None:
    load_kernels().permute64(items.ctypes.data, len(items), (seed + ((epoch + 1) << 32)) & _MASK64)


# ---------------------------------------------------------------------------------------------------------------------------------
# The stream
# ---------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shuffling:
    """How a reader mixes its samples.

    Args:
        random_shuffle, initial_fill, seed: mix the samples of a shard-epoch with a buffer of `initial_fill` samples.
        shuffle_after_epoch, shuffle_after_epoch_seed: permute the whole data set for every epoch; implies `stick_to_shard`. The seed's
            default is 524287.
        checkpointing: the pipeline's option. As in DALI, it changes the order of `shuffle_after_epoch` from the second epoch on. With it,
            each epoch permutes the original list, and restoring a position takes one permutation. Without it, each epoch permutes the
            previous list, and restoring repeats all permutations.
        pre_permute: `random_shuffle` also permutes the list once, by a constant (readers file, coco, numpy, nemo_asr, sequence, video,
            fits; not caffe, caffe2, tfrecord, mxnet, webdataset).
        containers: samples in each container file (tfrecord, mxnet, webdataset): `shuffle_after_epoch` permutes files and may be combined
            with `random_shuffle`.
    """

    random_shuffle: bool = False
    initial_fill: int = 1024
    seed: int = 0
    shuffle_after_epoch: bool = False
    shuffle_after_epoch_seed: int | None = None
    checkpointing: bool = False
    pre_permute: bool = True
    containers: Sequence[int] | None = None

    def check(self, count: int, stick_to_shard: bool) -> None:
        """ValueError if arguments exclude each other, or do not fit a data set of `count` samples."""
        if self.initial_fill < 1:
            raise ValueError(f"initial_fill is {self.initial_fill}; the shuffle buffer needs at least 1 slot")
        if self.shuffle_after_epoch and stick_to_shard:
            raise ValueError("shuffle_after_epoch and stick_to_shard cannot both be true; shuffle_after_epoch already stays on its shard")
        if self.shuffle_after_epoch and self.random_shuffle and self.containers is None:
            raise ValueError("shuffle_after_epoch and random_shuffle cannot both be true for this reader; choose one")
        sizes = self.containers
        if sizes is not None and (min(sizes, default=0) < 0 or sum(sizes) != count):
            smallest = min(sizes, default=0)
            raise ValueError(f"the containers hold {sum(sizes)} samples in all, the smallest {smallest}; they must hold {count}")

    def lists(self, count: int) -> _FixedList | _EpochLists | _ContainerLists:
        """The list of each epoch, before the shuffle buffer mixes it."""
        if not self.shuffle_after_epoch:
            return _FixedList(count, self.random_shuffle and self.pre_permute)
        seed = PERMUTATION_SEED if self.shuffle_after_epoch_seed is None else int(self.shuffle_after_epoch_seed)
        return _EpochLists(count, seed, self.checkpointing) if self.containers is None else _ContainerLists(self.containers, seed)


_WHOLE, _LISTED = Sharding(), Shuffling()


class SampleOrder:
    """The endless stream of indices of one reader, over a data set of `count` samples.

    Raises:
        ValueError: an argument is out of range, or two exclude each other.
    """

    def __init__(self, count: int, sharding: Sharding = _WHOLE, shuffling: Shuffling = _LISTED):
        sharding.check(count)
        shuffling.check(count, sharding.stick_to_shard)
        self.count = count
        self.num_shards, self.shard_id = sharding.num_shards, sharding.shard_id
        self.stick_to_shard = sharding.stick_to_shard or shuffling.shuffle_after_epoch
        self.pad_last_batch = sharding.pad_last_batch
        self._fill = shuffling.initial_fill if shuffling.random_shuffle else 0
        self._lists = shuffling.lists(count)
        self.start = OrderPosition(engine_from_seed(shuffling.seed), 0, 0)
        """The position of a fresh pipeline."""
        self._lock = threading.Lock()
        self._visits: dict[OrderPosition, _Visit] = {}  # recent visits by position, oldest first
        self._known: dict[tuple[OrderPosition, int], OrderPosition] = {}  # positions after recent batches, oldest first
        self._drawn: dict[tuple[OrderPosition, int], np.ndarray] = {}  # small batches at these positions, oldest first
        self._engines: dict[tuple[int, int], int] = {}  # engine at the start of a shard-epoch, and its size -> engine at its end

    @property
    def padded_shard_size(self) -> int:
        """Least number of samples that every shard delivers per epoch with padding: ceil(count / num_shards)."""
        return -(-self.count // self.num_shards)

    def meta(self) -> dict[str, int]:
        """The reader's part of ``Pipeline.reader_meta``."""
        return {
            "epoch_size": self.count,
            "epoch_size_padded": self.padded_shard_size * self.num_shards if self.pad_last_batch else self.count,
            "number_of_shards": self.num_shards,
            "shard_id": self.shard_id,
            "pad_last_batch": int(self.pad_last_batch),
            "stick_to_shard": int(self.stick_to_shard),
        }

    def take(self, position: OrderPosition, samples: int) -> tuple[np.ndarray, OrderPosition]:
        """The batch of `samples` samples at `position` (padding fills it up), and the position after it.

        The batch is int64[samples], read-only.
        """
        key = position, samples
        with self._lock:
            drawn, behind = self._drawn.get(key), self._known.get(key)
        return self._draw(position, samples) if drawn is None or behind is None else (drawn, behind)

    def _draw(self, position: OrderPosition, samples: int) -> tuple[np.ndarray, OrderPosition]:
        """:meth:`take`, without the cache. If another batch ends at `position`, the next batches are drawn, too."""
        most = min(_BATCHES_AHEAD, _SAMPLES_AHEAD // max(_checked_samples(samples), 1))
        with self._lock:
            follows = position in self._known.values()
        found = []
        for _ in range(most if follows and most > 1 else 1):
            out = np.empty(samples, np.int64)
            behind = self._walk(position, samples, out)
            out.flags.writeable = False
            found.append((position, out, behind))
            position = behind
        with self._lock:
            for begin, out, behind in found:
                self._known[begin, samples] = behind
                if most > 1:
                    self._drawn[begin, samples] = out
            while len(self._known) > _RECENT_BATCHES:
                del self._known[next(iter(self._known))]
            while len(self._drawn) > _RECENT_BATCHES:
                del self._drawn[next(iter(self._drawn))]
        _, out, behind = found[0]
        return out, behind

    def after(self, position: OrderPosition, samples: int) -> OrderPosition:
        """The position after a batch of `samples` samples at `position`."""
        known = self._known.get((position, samples))
        return self._walk(position, _checked_samples(samples), None) if known is None else known

    def moved(self, position: OrderPosition, batches: int, samples: int) -> OrderPosition:
        """The position after `batches` batches of `samples` samples at `position`, without walking through them.

        Without the shuffle buffer this takes the same time for any number of batches. With the buffer the random
        generator jumps once for each shard-epoch that is passed. The results are cached.
        """
        if batches < 0:
            raise ValueError(f"the number of batches is {batches}; it cannot be negative")
        if batches == 0 or _checked_samples(samples) == 0:
            return position
        epoch, age = self._place_after(position, batches, samples)
        return OrderPosition(self._engine_at(position, epoch), epoch, age)

    def _place_after(self, position: OrderPosition, batches: int, samples: int) -> tuple[int, int]:
        """Epoch and age of :meth:`moved`."""
        epoch, age = position.epoch, position.age
        if self.pad_last_batch:
            left = max(1, -(-(self.padded_shard_size - age) // samples))  # batches until this shard-epoch ends
            if batches < left:
                return epoch, age + batches * samples
            each = -(-self.padded_shard_size // samples)
            more, rest = divmod(batches - left, each)
            return epoch + 1 + more, rest * samples
        total = age + batches * samples
        cycle = 1 if self.num_shards == 1 or self.stick_to_shard else self.num_shards
        rounds, total = divmod(total, self.shard_size(epoch) if cycle == 1 else self.count)
        epoch += rounds * cycle
        while total >= self.shard_size(epoch):
            total -= self.shard_size(epoch)
            epoch += 1
        return epoch, total

    def _engine_at(self, position: OrderPosition, epoch: int) -> int:
        """The engine's state at the start of shard-epoch `epoch`, from a position in it or before it."""
        engine = position.engine
        for passed in range(position.epoch, epoch if self._fill else 0):
            size = self.shard_size(passed)
            with self._lock:
                following = self._engines.get((engine, size))
            if following is None:
                following = _engine_behind(engine, size, min(self._fill, size))
                with self._lock:
                    self._engines[engine, size] = following
                    while len(self._engines) > _KNOWN_ENGINES:
                        del self._engines[next(iter(self._engines))]
            engine = following
        return engine

    def runs(self, position: OrderPosition, samples: int) -> list[ShardRun]:
        """The parts of the batch of `samples` samples at `position`, one for each shard-epoch, and one for its padding."""
        found, done, epoch, age = [], 0, position.epoch, position.age
        while done < samples:
            size = self.shard_size(epoch)
            if age < size:
                run, padding = min(samples - done, size - age), False
            else:
                run, padding = samples - done, True  # padding fills the rest of the batch
            if padding and not self.pad_last_batch:
                epoch, age = epoch + 1, 0
                continue
            shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
            found.append(ShardRun(run, epoch, shard, padding))
            done, age = done + run, age + run
        return found

    def _walk(self, position: OrderPosition, samples: int, out: np.ndarray | None) -> OrderPosition:
        """Move `samples` samples from `position`; deliver them into `out` if it is given."""
        if type(position) is not OrderPosition:
            position = OrderPosition(*position)
        done = 0
        while done < samples:
            size = self.shard_size(position.epoch)
            inside = position.age < size
            # Behind the shard's end, padding fills the rest of the batch; `_beyond` keeps the visit for padding.
            run = min(samples - done, size - position.age) if inside else samples - done
            whole_shard = position.age + run >= size
            if out is not None or (whole_shard and self._fill):
                position = self._deliver(position, run, inside, None if out is None else out[done : done + run])
            else:
                position = OrderPosition(position.engine, position.epoch, position.age + run)
            done += run
            if whole_shard:
                position = self._beyond(position, batch_ended=done == samples)
        return position

    def _deliver(self, position: OrderPosition, run: int, inside: bool, out: np.ndarray | None) -> OrderPosition:
        """Move within one visit. The visit is then cached at the new position."""
        with self._lock:
            visit = self._visits.pop(position, None)
        if visit is None:
            visit = self._new_visit(position)
        if not inside:
            if out is not None:
                out[:] = visit.last
        elif out is None:
            visit.skip(run)
        else:
            visit.read(out)
        position = OrderPosition(position.engine, position.epoch, position.age + run)
        with self._lock:
            self._visits[position] = visit
            while len(self._visits) > _RECENT_VISITS:
                del self._visits[next(iter(self._visits))]
        return position

    def checked(self, position: Sequence[int]) -> OrderPosition:
        """The position saved as three integers by an order with equal arguments.

        Raises:
            ValueError: not a position of this order.
        """
        return self._beyond(self._checked(position), batch_ended=True)

    def member(self, epoch: int, number: int) -> int:
        """The index of sample `number` of the shard that is read in shard-epoch `epoch`, in the listed order."""
        with self._lock:
            order = self._lists.of(epoch)
        place = self._shard_bounds(epoch)[0] + number
        return place if order is None else int(order[place])

    def shard_size(self, epoch: int) -> int:
        """Samples of the shard read in shard-epoch `epoch`."""
        if self.num_shards == 1:
            return self.count
        begin, end = self._shard_bounds(epoch)
        return end - begin

    def _shard_bounds(self, epoch: int) -> tuple[int, int]:
        """First and end position, in the list, of the shard read in shard-epoch `epoch`."""
        shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
        return shard_bounds(self.count, self.num_shards, shard)

    def _new_visit(self, position: OrderPosition) -> _Visit:
        """A visit of a shard-epoch, moved to `position`."""
        with self._lock:  # a new epoch's list may take a permutation, which changes the list in place
            order = self._lists.of(position.epoch)
            bounds = self._shard_bounds(position.epoch)
            visit: _Visit
            if self._fill:
                visit = _BufferedVisit(order, *bounds, position.engine, self._fill)
            else:
                visit = _StraightVisit(order, *bounds, position.engine)
            visit.skip(min(position.age, visit.size))
        return visit

    def _beyond(self, position: OrderPosition, batch_ended: bool) -> OrderPosition:
        """The start of the next shard-epoch if this one is exhausted and no padding follows; else `position`."""
        if position.age < self.shard_size(position.epoch):
            return position
        if self.pad_last_batch and (not batch_ended or position.age < self.padded_shard_size):
            return position
        if not self._fill:
            return OrderPosition(position.engine, position.epoch + 1, 0)
        with self._lock:
            visit = self._visits.pop(position, None)
        if visit is None:
            visit = self._new_visit(position)
        return OrderPosition(visit.engine, position.epoch + 1, 0)

    def _checked(self, position: Sequence[int]) -> OrderPosition:
        try:
            engine, epoch, age = (int(value) for value in position)
        except (TypeError, ValueError):
            raise ValueError(f"{position!r} is not the position of a reader; expected three integers: engine, epoch, age") from None
        if not 0 < engine < _ENGINE_MODULUS:
            raise ValueError(f"the engine state of the reader's position is {engine}; expected 1 to {_ENGINE_MODULUS - 1}")
        if epoch < 0:
            raise ValueError(f"the epoch of the reader's position is {epoch}; it cannot be negative")
        start, stop = self._shard_bounds(epoch)
        if not 0 <= age <= stop - start:
            raise ValueError(
                f"the reader's position is {age} samples into a shard of {stop - start}; it was saved with another data set "
                "or other shards"
            )
        return OrderPosition(engine, epoch, age)


_JUMPS = 4096
"""Largest buffer for which a jump takes less time than the draws of a large shard."""


def _engine_behind(engine: int, size: int, slots: int) -> int:
    """The state of `engine` after a shard-epoch of `size` samples that a buffer of `slots` samples has mixed."""
    if slots < _JUMPS and 16 * slots < size < _ENGINE_MODULUS // 2:
        engine = shuffle_jumps.after_draws(engine, size - slots + 1, slots)
        size = slots = slots - 1  # the buffer is full until here; from here on it has one sample less after each draw
    visit = _BufferedVisit(None, 0, size, engine, slots)
    visit.skip(size)
    return visit.engine


def _checked_samples(samples: int) -> int:
    if samples < 0:
        raise ValueError(f"the batch size is {samples}; it cannot be negative")
    return samples

"""Torch data sets as sources of a pipeline, and pipelines as torch data sets."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ... import fn
from ...pipeline import Pipeline
from ..epochs import LastBatchPolicy
from .iterator import DALIGenericIterator


class TorchDatasetSource:
    """A map-style data set as a source of batches. Any worker can make any batch, from (iteration, epoch).

    Args:
        dataset: has ``__len__`` and ``__getitem__`` (or ``__getitems__``); items are tensors, arrays, numbers, bytes, PIL images, or
            tuples, lists or dicts of them.
        batch_size: samples per batch.
        shuffle: use another order in every epoch, a function of (`seed`, epoch).
        shard_id, num_shards: every `num_shards`-th sample of the order, beginning with `shard_id`; all shards have ceil(n / num_shards)
            samples, as with torch's DistributedSampler.
        last_batch_policy: the last batch is smaller (PARTIAL), filled from the beginning of the order (FILL), or left out (DROP).
        keys: the keys of items that are dicts, in the order of the components.
    """

    def __init__(
        self, dataset: object, batch_size: int, shuffle: bool = False, seed: int = 0, shard_id: int = 0, num_shards: int = 1,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.PARTIAL, keys: Sequence[str] | None = None,
    ):  # fmt: skip
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise TypeError(f"from_torch_dataset needs a map-style data set (__getitem__ and __len__), got {type(dataset).__name__}")
        if not isinstance(last_batch_policy, LastBatchPolicy):
            raise ValueError(f"last_batch_policy must be a LastBatchPolicy, got {last_batch_policy!r}")
        if not 0 <= shard_id < num_shards:
            raise ValueError(f"shard_id must be in [0, {num_shards}), got {shard_id}")
        if len(dataset) == 0:
            raise ValueError("the data set is empty")
        self.dataset, self.batch_size = dataset, batch_size
        self.shuffle, self.seed = shuffle, seed
        self.shard_id, self.num_shards = shard_id, num_shards
        self.policy, self.keys = last_batch_policy, keys
        self._made_in = os.getpid()
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def __len__(self) -> int:
        """Samples of the shard."""
        return (len(self.dataset) + self.num_shards - 1) // self.num_shards

    def order(self, epoch: int) -> np.ndarray:
        """Indices of this shard's samples in `epoch`."""
        if self._order[0] != epoch:
            count = len(self.dataset)
            every = np.random.default_rng([self.seed, epoch]).permutation(count) if self.shuffle else np.arange(count)
            self._order = epoch, np.resize(every, len(self) * self.num_shards)[self.shard_id :: self.num_shards]
        return self._order[1]

    def __call__(self, info: Any) -> Any:
        """The batch of a BatchInfo: a list of samples, or a tuple of such lists. StopIteration after the last batch."""
        order = self.order(info.epoch_idx)
        start, stop = info.iteration * self.batch_size, (info.iteration + 1) * self.batch_size
        if start >= len(order) or (self.policy is LastBatchPolicy.DROP and stop > len(order)):
            raise StopIteration
        wanted = order[start:stop]
        if self.policy is LastBatchPolicy.FILL:
            wanted = order.take(range(start, stop), mode="wrap")
        return self._columns(self._items(wanted.tolist()))

    def _items(self, indices: list[int]) -> list[object]:
        if os.getpid() != self._made_in:  # in a worker: the other workers use its cores
            self._made_in = os.getpid()
            torch.set_num_threads(1)
        if not hasattr(self.dataset, "__getitems__"):
            return [self.dataset[index] for index in indices]
        items = list(self.dataset.__getitems__(indices))
        if len(items) != len(indices):
            raise ValueError(f"__getitems__ of the data set returned {len(items)} items for {len(indices)} indices")
        return items

    def _columns(self, items: list[Any]) -> Any:
        first = items[0]
        if isinstance(first, dict):
            keys = self.keys or list(first)
            for item in items:
                if not isinstance(item, dict) or not item.keys() >= set(keys):
                    raise ValueError(f"items of the data set must all have the keys {list(keys)}, one is {_kind(item)}")
            items = [tuple(item[key] for key in keys) for item in items]
        elif not isinstance(first, (tuple, list)):
            return [_array(item) for item in items]
        for item in items:
            if not isinstance(item, (tuple, list)) or len(item) != len(items[0]):
                raise ValueError(f"items of the data set must be alike, one is {_kind(first)}, another {_kind(item)}")
        return tuple([_array(part) for part in column] for column in zip(*items, strict=True))


def _kind(item: object) -> str:
    if isinstance(item, dict):
        return f"a dict with {list(item)}"
    return f"a {type(item).__name__}" + (f" of {len(item)}" if isinstance(item, (tuple, list)) else "")


def _array(value: object) -> np.ndarray:
    """A component of an item as an array. Numbers get the types that torch's default_collate gives them."""
    if isinstance(value, torch.Tensor):
        array: np.ndarray = value.detach().contiguous().numpy()
        return array
    if isinstance(value, (bytes, bytearray)):
        return np.frombuffer(value, np.uint8)
    if isinstance(value, (str, type(None))):
        raise TypeError(f"an item of the data set has a {type(value).__name__}; tensors, arrays, numbers, bytes and images can be batched")
    return np.asarray(value, order="C")  # a scalar stays a scalar


def from_torch_dataset(
    dataset: Any,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    shard_id: int = 0,
    num_shards: int = 1,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.PARTIAL,
    parallel: bool = True,
    prefetch_queue_depth: int | None = None,
    num_outputs: int | None = None,
    **arguments: Any,
) -> Any:
    """Read a map-style torch data set as outputs of an external source, in the pipeline being defined.

    Worker processes (`parallel`, ``Pipeline(py_num_workers=...)``) make whole batches, `prefetch_queue_depth` ahead. None means one batch
    per worker and one more. Every place of every epoch is a position, so checkpoints resume exactly.

    Returns a node. For items that are tuples (dicts) it returns a list (dict) of nodes. Item 0 is read to find this out, unless
    `num_outputs` gives the number of components of the tuples.

    `seed` None means the pipeline's seed, or 0. Other arguments: :class:`TorchDatasetSource` and ``fn.external_source`` (layout, dtype,
    ...). Raises RuntimeError outside of a pipeline's definition, TypeError for data sets that are not map-style.
    """
    pipe = Pipeline.current()
    if pipe is None or pipe.max_batch_size is None:
        raise RuntimeError("from_torch_dataset needs a pipeline being defined, with a batch_size")
    if seed is None:
        seed = pipe.seed or 0
    keys: list[str] | None = None
    source = TorchDatasetSource(dataset, pipe.max_batch_size, shuffle, seed, shard_id, num_shards, last_batch_policy)
    if num_outputs is None:
        item = dataset[0]
        if isinstance(item, dict):
            keys = source.keys = list(item)
        if isinstance(item, (tuple, list, dict)):
            num_outputs = len(item)
    if parallel:
        arguments["prefetch_queue_depth"] = prefetch_queue_depth or pipe.py_num_workers + 1
    elif prefetch_queue_depth is not None:
        raise ValueError("prefetch_queue_depth is for parallel sources")
    nodes: Any = fn.external_source(source, num_outputs=num_outputs, batch=True, batch_info=True, parallel=parallel, **arguments)
    return dict(zip(keys, nodes, strict=True)) if keys is not None else nodes


class PipelineDataset(IterableDataset):
    """A pipeline as a torch data set of batches: ``DataLoader(PipelineDataset(...), batch_size=None)``.

    Args:
        pipeline: a pipeline, or a function that makes one. A DataLoader with workers needs a function. It is called in each worker, with
            `shard_id` and `num_shards` if it has parameters of these names.
        arguments: of :class:`DALIGenericIterator`: output_map, size, reader_name, last_batch_policy.

    Iterating gives a dict {name: tensor} per batch, one epoch at a time. For `state_dict`, `load_state_dict` and `set_epoch` see the
    iterator. A DataLoader with workers makes new pipelines for every epoch, and new pipelines begin with epoch 0. Use
    `persistent_workers=True`, or call :meth:`set_epoch` before each epoch.

    After a `break` the next loop gets the rest of the epoch. With persistent workers it gets the whole next epoch, because the loader drops
    the batches that its workers have made ahead.
    """

    def __init__(self, pipeline: Pipeline | Callable[..., Pipeline], output_map: Sequence[str] | None = None, **arguments: Any):
        if not isinstance(pipeline, Pipeline) and not callable(pipeline):
            raise TypeError(f"expected a pipeline or a function that makes one, got {type(pipeline).__name__}")
        if "auto_reset" in arguments or "prepare_first_batch" in arguments:
            raise TypeError("auto_reset and prepare_first_batch cannot be given to the data set: each `iter` begins an epoch")
        self._pipeline, self._output_map, self._arguments = pipeline, output_map, arguments
        self._iterator: DALIGenericIterator | None = None
        self._made_in = 0
        self._epoch = 0  # the first epoch of the next iterator that is made
        self._resumes = False  # a state was loaded: the next iterator delivers the rest of its epoch, even if the rest is empty

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    @property
    def iterator(self) -> DALIGenericIterator:
        """The iterator of this process. It is made at the first use."""
        if self._iterator is None or self._made_in != os.getpid():  # a forked worker makes its own iterator
            self._made_in = os.getpid()
            self._iterator = DALIGenericIterator(self._made(), self._output_map, prepare_first_batch=False, **self._arguments)
            self._iterator.set_epoch(self._epoch)
        return self._iterator

    def _made(self) -> Pipeline:
        worker = get_worker_info()
        if isinstance(self._pipeline, Pipeline):
            if worker is not None:
                raise RuntimeError("a DataLoader with workers needs a function that makes the pipeline, called in each worker")
            return self._pipeline
        place = {} if worker is None else {"shard_id": worker.id, "num_shards": worker.num_workers}
        known = inspect.signature(self._pipeline).parameters
        if worker is not None and worker.num_workers > 1 and not place.keys() <= known.keys():
            raise RuntimeError("with several workers the function must take `shard_id` and `num_shards`, or all workers read the same data")
        return self._pipeline(**{name: value for name, value in place.items() if name in known})

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        iterator, resumes, self._resumes = self.iterator, self._resumes, False
        if get_worker_info() is not None and not resumes:
            iterator = self._at_beginning(iterator)
        if resumes and not iterator._ended:  # each worker of a loader ends the epoch for itself; workers that finish first wait
            return map(operator.itemgetter(0), iter(iterator.next, None))
        return map(operator.itemgetter(0), iter(iterator))

    def _at_beginning(self, iterator: DALIGenericIterator) -> DALIGenericIterator:
        """The iterator at the beginning of an epoch, in a worker of a DataLoader.

        After a `break` the loader drops batches that its workers have made ahead, and no worker knows which. So the rest of the epoch
        cannot be delivered, and the next epoch begins. Pipelines whose sources end the epochs are made again.
        """
        if not iterator.is_inside_epoch:
            return iterator
        try:
            iterator.set_epoch(iterator._epoch + 1)
        except RuntimeError:  # sources end the epochs
            for pipe in iterator._pipes:
                pipe.close()
            self._iterator = None
        return self.iterator

    def __len__(self) -> int:
        """Batches of an epoch, without DataLoader workers. TypeError where sources end the epoch."""
        count = len(self.iterator)
        if count == 0:
            raise TypeError("the length of an epoch is not known")
        return count

    def set_epoch(self, epoch: int) -> None:
        """As :meth:`DALIGenericIterator.set_epoch`, also for workers that a DataLoader starts later. Workers of an earlier epoch
        (`persistent_workers`) continue without a call."""
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"epoch must be an integer of at least 0, got {epoch!r}")
        self._epoch = epoch
        if self._iterator is not None and self._made_in == os.getpid():
            self._iterator.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`DALIGenericIterator.state_dict`."""
        return self.iterator.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As :meth:`DALIGenericIterator.load_state_dict`. The next `iter` gives the rest of that epoch, if there is any."""
        self.iterator.load_state_dict(state)
        self._resumes = True


__all__ = ["PipelineDataset", "TorchDatasetSource", "from_torch_dataset"]

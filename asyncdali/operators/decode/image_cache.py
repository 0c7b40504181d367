"""The cache of decoded pictures: arguments `cache_size`, `cache_type`, `cache_threshold` of ``decoders.image``.

The key of a picture is the number of its encoded bytes and a digest of 128 bits. So a renamed or changed file
never gets the pixels of another picture. Decoders whose settings change pixels (colour space, element type, orientation,
inverse DCT) have separate caches. Decoders with equal settings share one cache per process, which lives as long as one of them.

Files of cached pictures are not read again in two cases: only decoders with a cache read their bytes, or the reader has
`skip_cached_images`. The first case is decided in ``build()`` (``peephole.caches``). There a file counts as unchanged if it has the same
device, inode, size and times as before, and did not change within the last second.

The size bounds pixels and bookkeeping together. A file that is not cached leaves nothing behind, and a stamp is kept only
for a cached picture, while there is room. So any number of files, names and changes fits into the size.

Nothing is evicted. If a reader finds a picture in the cache (`skip_cached_images`), the decoder finds it there, too.

Pixels are equal with and without the cache, so the cache is no part of a checkpoint.
"""

from __future__ import annotations

import functools
import heapq
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...compiled.addresses import address_of
from ...messages.notices import warn
from ..base import Arg, CompiledJob, SampleError, Spec, Step, no_explanation
from .image_cache_tables import DIGEST_FILES, KEEP_PICTURES

if TYPE_CHECKING:
    from ...device.cuda.device import CudaDevice
    from ...device.cuda.memory import CudaEvent

CACHE_ARGS = (
    Arg(
        "cache_batch_copy", "bool", True,
        "On a GPU: pictures of the cache are copied into the batch by one kernel; False: by one copy each. No effect elsewhere.",
    ),
    Arg("cache_debug", "bool", False, "When the pipeline is closed, print the cache's contents and hits to standard error."),
    Arg(
        "cache_size", "int", 0,
        "Megabytes (2**20 bytes) of the cache of decoded pictures, in GPU memory for a mixed decoder on a GPU, else in host memory.",
    ),
    Arg("cache_threshold", "int", 0, "Bytes that a decoded picture must have to be kept."),
    Arg(
        "cache_type", "str", "",
        'Which pictures are kept: "threshold" (the default), in the order of their arrival until the cache is full; "largest", the '
        'largest ones that fit, '
        "chosen when the first picture comes for the second time.",
    ),
)  # fmt: skip
CACHE_TYPES = ("", "threshold", "largest")
HEADER = 64
"""Bytes before a cached picture. Their first word says whether the pixels are valid."""
ENTRY = 512
"""Bytes that the bookkeeping of a picture, or of a stamp, takes at most; they count as used (measured: 430 and 240)."""
_NAME = 100
"""Bytes that the policy "largest" takes for a name that it waits for."""
_SEED = secrets.randbits(63)

Key = tuple[int, int, int]
"""The number of encoded bytes, and their digest."""


@dataclass(frozen=True)
class CacheOptions:
    """The user's options; sizes are in bytes."""

    size: int
    kind: str
    threshold: int

    @classmethod
    def of(cls, spec: Spec) -> CacheOptions | None:
        """The cache options of a decoder; None without a cache. ValueError for invalid options."""
        size, kind, threshold = (spec.constant(name) for name in ("cache_size", "cache_type", "cache_threshold"))
        if kind not in CACHE_TYPES:
            raise ValueError(f"`cache_type` is {kind!r}; supported are {', '.join(map(repr, CACHE_TYPES))}")
        for name in ("cache_size", "cache_threshold"):
            if spec.constant(name) < 0:
                raise ValueError(f"`{name}` must not be negative, got {spec.constant(name)}")
        if size:
            return cls(size << 20, kind or "threshold", threshold)
        for arg in CACHE_ARGS:
            if spec.given(arg.name) and spec.constant(arg.name) != arg.default:
                warn(f"{spec.schema.name}: `{arg.name}` has no effect without a cache; give `cache_size`, too", UserWarning)
        return None


class Picture(NamedTuple):
    """A picture that is cached, or will be: address of its slot, and its shape (height, width, channels)."""

    slot: int
    shape: tuple[int, int, int]


class PictureCache:
    """Decoded pictures in one block of memory. Decoders of the process with equal `options` and settings share it.

    `device`: the GPU in whose memory the pictures lie; None: host memory.
    """

    def __init__(self, options: CacheOptions, device: CudaDevice | None = None):
        self.options = options
        self.device = device
        size = options.size + HEADER
        self._memory: Any
        if device is None:
            self._memory = limits.new_array(size, np.uint8, "`cache_size`")
            self._first = address_of(self._memory)
        else:
            self._memory = device.lasting(size)
            self._first = self._memory.address
        self._begin = (self._first + HEADER - 1) & -HEADER
        self._lock = threading.Lock()
        self._pictures: dict[Key, Picture] = {}
        self._keys: dict[Hashable, Key] = {}
        self._candidates = _Candidates(options.size) if options.kind == "largest" else None
        self._chosen: set[Key] = set()
        self._on_the_way: deque[tuple[CudaEvent, list[Key]]] = deque()
        self._copied: set[Key] = set()
        self._entries = 0
        self.used = 0

    @property
    def taken(self) -> int:
        """Bytes of pixels and bookkeeping. They stay within the size."""
        return self.used + ENTRY * self._entries

    def __len__(self) -> int:
        return len(self._pictures)

    def _filled(self, key: Key, picture: Picture) -> bool:
        return key in self._copied if self.device is not None else bool(self._memory[picture.slot - self._first])

    def filled(self, keys: list[Key], event: CudaEvent) -> None:
        """Record that the GPU has copied the pictures with these keys once `event` has completed."""
        with self._lock:
            self._on_the_way.append((event, keys))

    def look_around(self) -> None:
        """Mark pictures that the GPU has finished copying. The cache's device must be current in the calling thread."""
        with self._lock:
            while self._on_the_way and self._on_the_way[0][0].done():
                self._copied.update(self._on_the_way.popleft()[1])

    def find(self, key: Key | None) -> Picture | None:
        """The picture with this key, if its pixels are valid."""
        picture = None if key is None else self._pictures.get(key)
        return picture if key is not None and picture is not None and self._filled(key, picture) else None

    def key_of(self, stamp: Hashable) -> Key | None:
        """The key of the file with this stamp, if a decoder has seen the file."""
        return self._keys.get(stamp)

    def holds(self, stamp: Hashable) -> bool:
        """Whether the file with this stamp need not be read. Once true, it remains true."""
        return self.find(self._keys.get(stamp)) is not None

    def learn(self, stamp: Hashable, key: Key) -> None:
        """Record that the file with this stamp has the bytes of this key, if the picture is cached and there is room for the record."""
        if stamp in self._keys or key not in self._pictures:
            return
        with self._lock:
            if stamp not in self._keys and self.taken + ENTRY <= self.options.size:
                self._entries += 1
                self._keys[stamp] = key

    def reserve(self, key: Key, name: Hashable, shape: tuple[int, int, int], size: int) -> int:
        """Address of the slot for a picture of `size` bytes; 0 if the picture is not cached. `name`: see :meth:`_wants`.

        A slot that is not filled yet may be returned again: the next decoder of the picture writes the same pixels.
        """
        with self._lock:
            found = self._pictures.get(key)
            if found is not None:
                return found.slot
            room = HEADER + (size + HEADER - 1) // HEADER * HEADER
            if not size or not self._wants(key, name, size, room) or self.taken + room + ENTRY > self.options.size:
                return 0
            slot = self._begin + self.used
            self.used += room
            self._entries += 1
            if self.device is None:
                self._memory[slot - self._first : slot - self._first + 8] = 0
            self._pictures[key] = Picture(slot, shape)
            return slot

    def _wants(self, key: Key, name: Hashable, size: int, room: int) -> bool:
        """Whether the policy wants the picture in the cache.

        The policy "largest" only observes until one of the first names comes again: then an epoch is over, and all pictures were seen.
        """
        if size < self.options.threshold:
            return False
        if self.options.kind == "threshold":
            return True
        if self._candidates is not None:
            if not self._candidates.over(name):
                self._candidates.add(key, room + ENTRY)
                return False
            self._chosen, self._candidates = self._candidates.chosen(), None
        if key not in self._chosen:
            return False
        self._chosen.discard(key)
        return True


class _Candidates:
    """The pictures of an epoch from which the policy "largest" chooses, in memory for pictures of twice the cache's size.

    Only the smallest candidates are dropped. So the largest pictures that fit together are chosen, and small pictures fill the rest.
    """

    def __init__(self, size: int):
        self._size = size
        self._names: set[int] = set()
        self._rooms: dict[Key, int] = {}
        self._smallest: list[tuple[int, int, Key]] = []
        self._total = self._count = 0

    def over(self, name: Hashable) -> bool:
        """Whether `name` is one of the first names, and comes again. Otherwise it may become one of them."""
        number = hash(name)
        if number in self._names:
            return True
        if len(self._names) < max(1, self._size // 100 // _NAME):
            self._names.add(number)
        return False

    def add(self, key: Key, room: int) -> None:
        if key in self._rooms or room > self._size:
            return
        self._count += 1
        self._total += room
        self._rooms[key] = room
        heapq.heappush(self._smallest, (room, -self._count, key))
        while self._total > 2 * self._size:  # Of equal sizes the first one stays.
            dropped, _, key = heapq.heappop(self._smallest)
            self._total -= dropped
            del self._rooms[key]

    def chosen(self) -> set[Key]:
        left, chosen = self._size, set()
        for key, room in sorted(self._rooms.items(), key=lambda item: -item[1]):  # A stable sort: of equal sizes the first one wins.
            if room <= left:
                chosen.add(key)
                left -= room
        return chosen


_caches: weakref.WeakValueDictionary[Hashable, PictureCache] = weakref.WeakValueDictionary()
_caches_lock = threading.Lock()


def shared_cache(options: CacheOptions, settings: Hashable, device: CudaDevice | None = None) -> PictureCache:
    """The process's cache for decoders with these options and these `settings` that change pixels. MemoryError without memory."""
    key = options, settings, None if device is None else device.index
    with _caches_lock:
        found = _caches.get(key)
        if found is None:
            found = _caches[key] = PictureCache(options, device)
        return found


@dataclass
class Lookup:
    """The result of looking a batch up in the cache.

    keys    of the samples; None: an empty sample without a known key
    hits    sample -> its cached picture
    """

    cache: PictureCache
    keys: list[Key | None]
    names: Any
    hits: dict[int, Picture] = field(default_factory=dict)

    def show(self, images: np.ndarray, addresses: np.ndarray) -> None:
        """Enter cached pictures as decoded images: int64[samples, 4] as width, height, channels, 0; and the addresses of their pixels."""
        for i, (slot, (height, width, channels)) in self.hits.items():
            images[i] = (width, height, channels, 0)
            addresses[i] = slot + HEADER

    def _slots(self, output: Batch) -> np.ndarray:
        """Addresses of the slots for samples of `output`, int64[samples]; 0: the sample is not cached."""
        slots = np.zeros(len(output), np.int64)
        rows = zip(self.keys, output.sizes().tolist(), output.shapes.tolist(), strict=True)
        for i, (key, size, shape) in enumerate(rows):
            if i not in self.hits and key is not None:
                name = None if self.names is None else self.names[i]
                slots[i] = self.cache.reserve(key, key if name is None else name, tuple(shape), size)
                stamp = getattr(name, "stamp", None)
                if slots[i] and stamp:
                    self.cache.learn(stamp, key)
        return slots

    def keeping(self, output: Batch, targets: np.ndarray) -> list[Step]:
        """The step that copies samples of `output`, decoded to `targets`, into the cache; none if there are none to cache."""
        slots = self._slots(output)
        if not slots.any():
            return []
        from .image_cache_kernels import keep_step

        context, keep = KEEP_PICTURES.make(pictures=targets, sizes=output.sizes(), slots=slots, header=HEADER)
        return [Step(keep_step.address, context, no_explanation, keep=[*keep, self.cache])]

    def on_device(self, output: Batch, together: bool) -> KeptPictures:
        """The GPU's copies from the cache and into it; `together`: one kernel makes them."""
        slots, sources = self._slots(output), np.zeros(len(output), np.int64)
        for i, picture in self.hits.items():
            sources[i] = picture.slot + HEADER
        keys = [key for key, slot in zip(self.keys, slots.tolist(), strict=True) if slot and key is not None]
        slots[slots != 0] += HEADER
        return KeptPictures(sources, slots, together, functools.partial(self.cache.filled, keys))


class KeptPictures(NamedTuple):
    """The use of a GPU's cache in one batch.

    sources   int64[samples], addresses of cached pictures; 0: the sample is decoded
    slots     int64[samples], addresses of slots to fill; 0: the sample is not cached
    together  whether one kernel copies all cached pictures
    filled    called with the event behind the copies to the slots; it keeps the cache alive
    """

    sources: np.ndarray
    slots: np.ndarray
    together: bool
    filled: Callable[[CudaEvent], None]


def look_up(cache: PictureCache, source: Batch, sizes: np.ndarray) -> Generator[CompiledJob, None, Lookup]:
    """Look a batch of encoded pictures of `sizes` bytes up in the cache.

    SampleError for an empty sample that is not in the cache, because then its reader did not leave it out.
    """
    from .image_cache_kernels import digest_step

    if cache.device is not None:
        cache.look_around()
    count, names = len(source), source.source_info
    digests = np.zeros((count, 2), np.uint64)
    context, keep = DIGEST_FILES.make(inputs=source.addresses, sizes=sizes, digests=digests, seed=_SEED)
    yield CompiledJob(count, [Step(digest_step.address, context, no_explanation, keep=keep)])
    keys: list[Key | None] = []
    for i, (size, (first, second)) in enumerate(zip(sizes.tolist(), digests.tolist(), strict=True)):
        stamp = getattr(names[i], "stamp", None) if names else None
        if size:
            key = (size, first, second)
            keys.append(key)
            if stamp:
                cache.learn(stamp, key)
        else:
            keys.append(cache.key_of(stamp) if stamp else None)
    found = Lookup(cache, keys, names)
    for i, known in enumerate(keys):
        picture = cache.find(known)
        if picture is not None:
            found.hits[i] = picture
        elif not sizes[i]:
            raise SampleError(i, "the sample is empty, and the cache has no picture for it")
    return found

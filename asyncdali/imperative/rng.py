"""Random generators of dynamic mode: streams of 32-bit words whose state is a position.

Philox4x32-10, as in pipelines (``sampling/random_streams.py``). Each call of a random operator draws seven words, whatever its batch size,
and makes its own stream of them; sample i has the i-th substream.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, final

import numpy as np

from ..sampling.random_streams import StreamPosition
from .spellings import RNGS, missing_attribute

_MASK32, _MASK64, _MASK128 = 0xFFFFFFFF, (1 << 64) - 1, (1 << 128) - 1
_WORDS_PER_CALL = 7
Place: TypeAlias = tuple[int, int, int]
"""Key, counter (128 bits) and phase of a generator's next word."""


def _block(key: int, counter: int) -> tuple[int, int, int, int]:
    """The four words at a counter: ten rounds of Philox4x32."""
    k0, k1 = key & _MASK32, key >> 32
    a, b, c, d = counter & _MASK32, counter >> 32 & _MASK32, counter >> 64 & _MASK32, counter >> 96
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k0, q & _MASK32, (p >> 32) ^ d ^ k1, p & _MASK32
        k0, k1 = k0 + 0x9E3779B9 & _MASK32, k1 + 0xBB67AE85 & _MASK32
    return a, b, c, d


class RNGState:
    """The state of a generator: an immutable position. ``str()`` gives its text; a state equals its text and states with the same one."""

    __slots__ = ("position",)

    def __init__(self, position: StreamPosition):
        self.position = position

    def __str__(self) -> str:
        return str(self.position)

    def __repr__(self) -> str:
        return f"Philox4x32_10.State({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (RNGState, str)):
            return str(self) == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Callable[[object], RNGState], tuple[str]]:
        return _state, (str(self),)


def _state(value: object) -> RNGState:
    """A state, or its text. ValueError for another text."""
    if isinstance(value, RNGState):
        return value
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str):
        raise TypeError(f"the state of a generator is a state or its text, got {type(value).__name__}")
    return RNGState(StreamPosition.parse(value))


def _integer(value: object, what: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an integer, got {value!r}")
    return operator.index(value)


@final
class RNG:
    """A generator of 32-bit words. Calling it gives the next word.

    Args:
        seed: any integer; equal modulo 2^64 means equal streams. None: a fresh one from the system.
        state: instead of `seed`: the state of a generator, or its text.

    Raises:
        TypeError: a seed that is no integer.
        ValueError: both `seed` and `state`, or a text that is no state.
    """

    __slots__ = ("__weakref__", "_at", "_block", "_lock")

    def __init__(self, seed: object = None, state: object = None):
        if seed is not None and state is not None:
            raise ValueError("give `seed` or `state`, not both")
        self._lock = threading.Lock()
        if state is not None:
            self.set_state(state)
        else:
            self._go_to(StreamPosition.fresh(secrets.randbits(64) if seed is None else _integer(seed, "seed")))

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError("RNG cannot be subclassed: operators read its state")

    def _go_to(self, position: StreamPosition) -> None:
        self._at = position.key, position.hi << 64 | position.lo, position.phase
        """Key, counter and phase: one object, so that an interrupt finds all of them changed, or none."""
        self._block: tuple[Any, tuple[int, ...]] = None, ()
        """A counter, and its four words."""

    def _skip(self, words: int) -> None:
        """Go on by so many words. The caller has the lock."""
        key, counter, phase = self._at
        phase += words
        self._at = key, counter + (phase >> 2) & _MASK128, phase & 3

    def __call__(self) -> int:
        """The next word, 0 to 2^32 - 1."""
        with self._lock:
            key, counter, phase = self._at
            if self._block[0] != counter:
                self._block = counter, _block(key, counter)
            self._skip(1)
            return self._block[1][phase]

    def _call(self) -> Place:
        """The place of the words of one call of an operator, which :func:`drawn_position` makes a stream of."""
        with self._lock:
            place = self._at
            self._skip(_WORDS_PER_CALL)
        return place

    @property
    def seed(self) -> int:
        """Write-only: setting it starts the stream of a seed."""
        raise AttributeError("seed")  # the message of __getattr__ says more

    @seed.setter
    def seed(self, value: object) -> None:
        with self._lock:
            self._go_to(StreamPosition.fresh(_integer(value, "seed")))

    @property
    def state(self) -> RNGState:
        """The position of the next word. It can be set to a state or its text."""
        return self.get_state()

    @state.setter
    def state(self, value: object) -> None:
        self.set_state(value)

    def get_state(self, *, cuda_stream: object = None) -> RNGState:
        """The position of the next word. `cuda_stream` is there for other objects with states; a generator waits for nothing."""
        key, counter, phase = self._at
        return RNGState(StreamPosition(key, counter >> 64, counter & _MASK64, phase))

    def set_state(self, value: object) -> None:
        """Go to a state, or to the state with a text."""
        position = _state(value).position
        with self._lock:
            self._go_to(position)

    def advance(self, n: object) -> None:
        """Skip `n` words. ValueError for a negative number, TypeError for no integer."""
        count = _integer(n, "n")
        if count < 0:
            raise ValueError(f"a generator cannot go back: n is {count}")
        with self._lock:
            self._skip(count)

    def clone(self) -> RNG:
        """An independent generator with the same state."""
        return RNG(state=self.get_state())

    __copy__ = clone

    def __deepcopy__(self, memo: object) -> RNG:
        return self.clone()

    def __reduce__(self) -> tuple[Callable[[str], RNG], tuple[str]]:
        return _restored, (str(self.get_state()),)

    def __getattr__(self, name: str) -> NoReturn:
        missing_attribute(self, name, RNGS)

    def __repr__(self) -> str:
        return f"RNG(state={str(self.get_state())!r})"


def _restored(text: str) -> RNG:
    return RNG(state=text)


_UNSEEDED_TORCH = 67280421310721
"""``torch.initial_seed()`` of a process that has not seeded torch."""


_others = itertools.count(1)
"""Numbers of threads besides the main thread, in the order in which they first ask for their generator."""


class _Default(threading.local):
    def __init__(self) -> None:
        self.number = 0 if threading.current_thread() is threading.main_thread() else next(_others)

    rng: RNG | None = None
    given = False
    """Whether :func:`set_seed` was called."""
    torch_seed: int | None = None
    """The seed of torch that the generator's seed was made of."""


_default = _Default()


def _torch_seed() -> int | None:
    """The seed that the program gave torch; None: it has not."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "initial_seed"):
        return None
    seed = int(torch.initial_seed())
    return None if seed == _UNSEEDED_TORCH else seed


def fresh_seed(number: int = 0) -> int:
    """A seed for a program that gives none. `number`: of the thread's default generator, so that threads draw different numbers.

    It is made of the state of torch's global generator if the program has seeded that, else of NumPy's, which is random unless the program
    has seeded it. So ``torch.manual_seed`` and ``numpy.random.seed`` make programs repeatable. No number is drawn from these generators.
    """
    torch = sys.modules.get("torch")
    if torch is not None and _torch_seed() is not None:
        state = torch.get_rng_state().numpy().tobytes()
    else:
        kind, key, *rest = np.random.get_state()
        state = np.asarray(key).tobytes() + repr((kind, *rest)).encode()
    return int.from_bytes(hashlib.blake2b(state + b"\0" * number, digest_size=8).digest(), "little")


def get_default_rng() -> RNG:
    """The calling thread's generator, which calls without `rng` use.

    Without :func:`set_seed` its seed is made of the global generators of torch or NumPy; a later ``torch.manual_seed`` with another seed
    starts it again.
    """
    found = _default.rng
    if found is None:
        found = _default.rng = RNG(fresh_seed(_default.number))
        _default.torch_seed = _torch_seed()
    elif not _default.given and _default.torch_seed != _torch_seed():
        found.seed = fresh_seed(_default.number)
        _default.torch_seed = _torch_seed()
    return found


def set_seed(seed: object) -> None:
    """Seed the calling thread's generator. TypeError if `seed` is no integer."""
    number = _integer(seed, "seed")
    _default.given = True
    if _default.rng is None:
        _default.rng = RNG(number)
    else:
        _default.rng.seed = number


def generator_of(rng: object) -> Any:
    """The generator of a call: that of the thread, if it was given none."""
    return get_default_rng() if rng is None else rng


def place_for(rng: object, what: str) -> Place:
    """The place of the words of one call. ValueError if `rng` is no generator."""
    if rng is None:
        return get_default_rng()._call()
    if not isinstance(rng, RNG):
        raise ValueError(f"{what}: `rng` must be an ndd.random.RNG, got {type(rng).__name__}")
    return rng._call()



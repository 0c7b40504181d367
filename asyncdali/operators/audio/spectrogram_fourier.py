"""Tables of discrete Fourier transforms of real numbers, for ``spectrogram_kernels`` and its CUDA twin."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .spectrogram_fourier_tables import DENSE_TRANSFORM, TRANSFORM

_RADICES = (4, 2, 3, 5)
_MOST_DENSE = 2048


class Transform:
    """The tables of a transform of length `n` as a convolution (Bluestein), in float64. It serves lengths without a :class:`RealTransform`.

    ``table`` is a TRANSFORM. ``scratch`` is the number of float64 that a thread needs.
    A GPU needs ``roots``, ``chirp``, ``kernel`` and ``made``, the length of the complex transforms.
    """

    def __init__(self, n: int):
        m = 1 << (2 * n - 2).bit_length()
        self.roots = np.exp(-2j * np.pi * np.arange(max(m // 2, 1)) / m)
        # k**2 modulo 2n keeps the angles small.
        self.chirp = np.exp(-1j * np.pi * (np.arange(n) ** 2 % (2 * n)) / n)
        padded = np.zeros(m, complex)
        padded[:n] = self.chirp.conj()
        padded[m - n + 1 :] = self.chirp[:0:-1].conj()
        self.kernel = np.fft.fft(padded)
        self.length, self.made = n, m
        self.table, _ = TRANSFORM.make(length=n, made=m, roots=self.roots, chirp=self.chirp, kernel=self.kernel)
        self.scratch = 2 * m


class RealTransform:
    """The plan of a transform of `n` real numbers, n even and n / 2 a product of 2, 3 and 5; in float32.

    Numbers 2j and 2j + 1 form one complex number, and n / 2 of these are transformed in place. When the stages begin, number j lies at
    ``places[j]`` (int32[n / 2], digits reversed). Stage s joins ``radices[s]`` (int32[stages]) transforms of length m, the product
    of the radices before it. ``twiddles`` (complex64, one stage after the other) has, for each k in [0, m), the radix - 1 factors
    exp(-2 pi i j k / (radix m)). ``turns`` (complex64[n / 4 + 1]) has exp(-2 pi i k / n), which turn the result into the spectrum of the
    real numbers. This needs a factor of 1/2, which belongs in the window function: multiplication by a power of two does not round.
    """

    def __init__(self, n: int):
        self.length, self.half = n, n // 2
        self.radices = np.array(_factors(self.half), np.int32)
        places, m = np.zeros(1, np.int64), 1
        parts = [np.zeros(0, complex)]
        for radix in self.radices:
            k, j = np.arange(m)[:, None], np.arange(1, radix)[None]
            parts.append(_roots(j * k, radix * m).reshape(-1))
            # Index i of the longer transform is number i // radix of part i % radix.
            index = np.arange(radix * m)
            places = index % radix * m + places[index // radix]
            m *= int(radix)
        self.places = np.ascontiguousarray(places, np.int32)
        self.twiddles = np.ascontiguousarray(np.concatenate(parts), np.complex64)
        self.turns = np.ascontiguousarray(_roots(np.arange(self.half // 2 + 1), n), np.complex64)


class DenseTransform:
    """The table of a transform of `n` real numbers as sums of all products, in float64 (``spectrogram_dense_fourier_kernels``)."""

    def __init__(self, n: int):
        self.length = n
        self.turns = np.ascontiguousarray(_roots(np.arange(n), n))
        self.table, _ = DENSE_TRANSFORM.make(length=n, turns=self.turns)


def _roots(index: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i index / n), exact where the result is 0, 1 or -1."""
    quarter = 4 * index % n == 0
    exact = np.array([1, -1j, -1, 1j])[(4 * index // n) % 4]
    return np.where(quarter, exact, np.exp(-2j * np.pi * (index % n) / n))


def _factors(n: int) -> list[int]:
    """`n` as a product of the radices, or ValueError."""
    found = []
    for radix in _RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    if n != 1:
        raise ValueError("not a product of 2, 3 and 5")
    return found


@lru_cache(64)
def transform_of(n: int) -> Transform | RealTransform:
    """The transform of length `n`, at least 1. The result is shared."""
    if n % 2 == 0:
        try:
            return RealTransform(n)
        except ValueError:
            pass
    return Transform(n)


@lru_cache(64)
def row_transform_of(n: int) -> Transform | RealTransform | DenseTransform:
    """The transform of length `n` for rows without windows. The result is shared."""
    found = transform_of(n)
    return DenseTransform(n) if isinstance(found, Transform) and n <= _MOST_DENSE else found

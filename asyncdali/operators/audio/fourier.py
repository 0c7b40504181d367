"""Tables of a discrete Fourier transform of any length, for ``fourier_kernels``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...compiled.memory import address_of


class Transform:
    """The tables of a transform of length `n`: a power of two directly, other lengths as a convolution (Bluestein).

    ``table`` int64[5]: n, length of the transforms made, their roots of unity, and for a convolution chirp and transformed kernel (or 0);
    complex numbers as pairs of float64. ``scratch`` is the float64 numbers a thread needs.
    A GPU needs ``roots``, ``chirp`` and ``kernel`` (None without a convolution) and ``made``, the length of the transforms made.
    """

    def __init__(self, n: int):
        direct = n & (n - 1) == 0
        m = n if direct else 1 << (2 * n - 2).bit_length()
        self.roots = np.exp(-2j * np.pi * np.arange(max(m // 2, 1)) / m)
        chirp_at = kernel_at = 0
        self.chirp: np.ndarray | None = None
        self.kernel: np.ndarray | None = None
        if not direct:
            # k**2 modulo 2n, so that the angles stay small.
            self.chirp = np.exp(-1j * np.pi * (np.arange(n) ** 2 % (2 * n)) / n)
            padded = np.zeros(m, complex)
            padded[:n] = self.chirp.conj()
            padded[m - n + 1 :] = self.chirp[:0:-1].conj()
            self.kernel = np.fft.fft(padded)
            chirp_at, kernel_at = address_of(self.chirp), address_of(self.kernel)
        self.length, self.made = n, m
        self.table = np.array([n, m, address_of(self.roots), chirp_at, kernel_at], np.int64)
        self.scratch = 2 * m


@lru_cache(64)
def transform_of(n: int) -> Transform:
    """The transform of length `n`, at least 1; shared."""
    return Transform(n)

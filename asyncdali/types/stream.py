"""CUDA streams that other libraries made."""

from __future__ import annotations


class CUDAStream:
    """A CUDA stream of another library, by its handle: `CUDAStream(torch.cuda.Stream().cuda_stream)`."""

    def __init__(self, ptr: int | None = None):
        self._ptr = ptr

    @property
    def ptr(self) -> int | None:
        """The ``cudaStream_t`` as an integer."""
        return self._ptr

    def __repr__(self) -> str:
        return f"CUDAStream({self._ptr!r})"

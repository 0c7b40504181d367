"""CUDA streams that come from elsewhere."""

from __future__ import annotations


class CUDAStream:
    """A CUDA stream made elsewhere, by its handle: `CUDAStream(torch.cuda.Stream().cuda_stream)`."""

    def __init__(self, ptr: int | None = None):
        self._ptr = ptr

    @property
    def ptr(self) -> int | None:
        """The ``cudaStream_t`` as an integer."""
        return self._ptr

    def __repr__(self) -> str:
        return f"CUDAStream({self._ptr!r})"

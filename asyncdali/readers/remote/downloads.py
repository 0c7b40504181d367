"""Bytes of remote files, read only as far as there is memory for them.

The size that a server states may be wrong. A server may send more, or a few bytes that decompress into many. So answers of web servers are
read in blocks, and the running sum is compared with the free memory. Object stores (S3 and others) and fsspec's local file systems respect
the requested range, so a first piece of limited size is requested. A file that ends within the first piece costs one request; a larger file
costs two more, for its size and its rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asyncdali_workers import limits

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

BLOCK = 1 << 20
"""Most bytes of a web server's answer that are read at a time."""

FIRST_PIECE = 8 << 20
"""Bytes requested before the size of a file is known. Nearly all samples are smaller; a batch of 64 needs at most 512 MiB."""

_AT_A_TIME = 512
"""Concurrent requests of one call. A process may commonly have 1024 open connections."""


class Budget:
    """The memory that the files of one call take.

    The sum is compared with the free memory whenever it has grown by another ``limits.CHECKED`` bytes. As much memory must be free *again*,
    because the data will be copied once more, into the batch or into an anonymous file.
    """

    def __init__(self) -> None:
        self._taken, self._next_look, self._cap = 0, limits.CHECKED, limits.sample_cap()

    def take(self, more: int, size: int) -> None:
        """Raise TooLarge unless `more` bytes may be taken for a file of `size` known bytes."""
        if size > self._cap:
            raise limits.TooLarge(f"the file has {size:,} bytes or more; a file may have {self._cap:,} bytes ({limits.CAP_VARIABLE})")
        self._taken += more
        if self._taken >= self._next_look:
            limits.check(self._taken, "the remote files that are read at the same time")
            self._next_look = self._taken + limits.CHECKED


async def together(
    system: AbstractFileSystem, paths: Sequence[str], starts: Sequence[int], stops: Sequence[int | None], budget: Budget
) -> list[bytes | BaseException]:
    """Bytes or error of each range (the whole file if `stop` is None). fsspec's own method for several ranges leaves requests behind
    when it is cancelled."""
    import asyncio  # a slow import

    room = asyncio.Semaphore(_AT_A_TIME)
    one = _streamed if _is_web(system) else _in_pieces

    async def in_turn(path: str, start: int, stop: int | None) -> bytes:
        async with room:
            return await one(system, path, start, stop, budget)

    return await asyncio.gather(*map(in_turn, paths, starts, stops), return_exceptions=True)


def _is_web(system: AbstractFileSystem) -> bool:
    web = sys.modules.get("fsspec.implementations.http")  # a program with such a file system has already loaded the module
    return web is not None and isinstance(system, web.HTTPFileSystem)


async def _streamed(system: AbstractFileSystem, path: str, start: int, stop: int | None, budget: Budget) -> bytes:
    """The request of fsspec's ``_cat_file``, but the answer is read in blocks."""
    options = dict(system.kwargs)
    if stop is not None:
        if start >= stop:
            return b""
        budget.take(stop - start, stop - start)
        options["headers"] = {**(options.get("headers") or {}), "Range": f"bytes={start}-{stop - 1}"}
    session = await system.set_session()
    async with session.get(system.encode_url(path), **options) as answer:
        if answer.status in (404, 410):
            raise FileNotFoundError(path)
        answer.raise_for_status()
        if stop is None:
            return await _all_of(answer, budget)
        return await _part_of(answer, start if answer.status != 206 else 0, stop - start)


async def _all_of(answer: Any, budget: Budget) -> bytes:
    """The contents of an answer, whatever size the server stated. A compressed answer contains more than it declares."""
    taken = answer.content_length or 0
    budget.take(taken, taken)
    blocks, size = [], 0
    while block := await answer.content.read(BLOCK):
        size += len(block)
        if size > taken:
            budget.take(size - taken, size)
            taken = size
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


async def _part_of(answer: Any, skip: int, size: int) -> bytes:
    """`size` bytes after the first `skip`, or fewer if there are fewer. Servers may ignore ranges and send the whole file."""
    blocks = []
    while (skip or size) and (block := await answer.content.read(min(BLOCK, skip + size))):
        skipped = min(skip, len(block))
        skip -= skipped
        size -= len(block) - skipped
        blocks.append(block[skipped:])
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


async def _in_pieces(system: AbstractFileSystem, path: str, start: int, stop: int | None, budget: Budget) -> bytes:
    """A range; or a whole file, in one piece or two."""
    if stop is not None:
        budget.take(stop - start, stop - start)
        return bytes(await system._cat_file(path, start=start, end=stop))
    try:
        first: bytes = await system._cat_file(path, start=0, end=FIRST_PIECE)
    except FileNotFoundError:
        raise
    except Exception as error:  # object stores refuse any range of an empty object
        if not await _is_empty(system, path):
            raise error from None
        return b""
    budget.take(len(first), len(first))
    if len(first) < FIRST_PIECE:
        return first
    rest = _rest_of(await system._info(path), len(first), budget)
    return first + await system._cat_file(path, start=len(first), end=len(first) + rest) if rest else first


async def _is_empty(system: AbstractFileSystem, path: str) -> bool:
    try:
        result: bool = (await system._info(path))["size"] == 0
        return result
    except Exception:  # the caller's own error says more
        return False


def one_by_one(
    system: AbstractFileSystem, paths: Sequence[str], starts: Sequence[int], stops: Sequence[int | None], budget: Budget
) -> list[bytes | Exception]:
    """The same for a synchronous file system. Some of them (caches) request several files at a time in ``cat_ranges``."""
    for start, stop in zip(starts, stops, strict=True):
        if stop is not None:
            budget.take(stop - start, stop - start)
    ends = [FIRST_PIECE if stop is None else stop for stop in stops]
    found = system.cat_ranges(list(paths), list(starts), ends, on_error="return")
    return [
        _completed(system, path, data, budget) if stop is None and not isinstance(data, BaseException) else data
        for path, stop, data in zip(paths, stops, found, strict=True)
    ]


def _completed(system: AbstractFileSystem, path: str, first: bytes, budget: Budget) -> bytes | Exception:
    """A whole file whose first piece is known, or the error of reading its rest."""
    try:
        budget.take(len(first), len(first))
        rest = _rest_of(system.info(path), len(first), budget) if len(first) >= FIRST_PIECE else 0
        return first + system.cat_file(path, start=len(first), end=len(first) + rest) if rest else first
    except Exception as error:
        return error.with_traceback(None)


def _rest_of(info: dict[str, Any], known: int, budget: Budget) -> int:
    """Bytes of a file after its first `known` bytes, with the size that its file system states."""
    if info["size"] is None:
        raise ValueError("the server does not send the size of the file")
    size = int(info["size"])
    budget.take(max(size - known, 0), size)
    return max(size - known, 0)

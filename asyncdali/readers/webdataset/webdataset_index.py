"""Index files of WebDataset archives: ``v1.2 <samples>``, then per sample ``<ext> <offset> <size> <name>`` for each of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from ..containers.indices import read_text, write_text
from .tar import BLOCK_SIZE, Component, grouped, scan

_FIELDS = {"v1.1": 3, "v1.2": 4}


def read_index(path: str) -> Iterator[list[Component]]:
    """The samples of an index file. RuntimeError gives path and line of a malformed entry."""
    try:
        lines = read_text(path, "index file").split(b"\n")
    except RuntimeError as error:
        raise RuntimeError(f"{error} (index file of readers.webdataset)") from error

    def wrong(line: int, reason: str) -> RuntimeError:
        return RuntimeError(f'Malformed index file at "{path}" line {line} - {reason}')

    def words(line: bytes) -> list[str]:  # split at ASCII blanks; other blanks may be parts of names
        return [word.decode("utf-8", "surrogateescape") for word in line.split()]

    head = words(lines[0])
    if not head:
        raise wrong(1, "no version signature found")
    if head[0] not in _FIELDS:
        raise wrong(1, f"Unsupported version of the index file ({head[0][:40]}).")
    if len(head) < 2 or not re.fullmatch(r"-?[0-9]{1,18}", head[1]):
        raise wrong(1, "no sample count found")
    count, fields = int(head[1]), _FIELDS[head[0]]
    if count <= 0:
        raise wrong(1, "sample count must be positive")
    if count > len(lines):
        raise wrong(len(lines), f"no extensions provided for the sample (the header declares {count} samples)")
    for number in range(2, count + 2):
        tokens = words(lines[number - 1]) if number <= len(lines) else []
        if not tokens:
            raise wrong(number, "no extensions provided for the sample")
        if len(tokens) % fields:
            raise wrong(number, f"Could not find all necessary component parameters (extension, offset, size{', name' * (fields == 4)})")
        yield [_component(tokens[k : k + fields], number, wrong) for k in range(0, len(tokens), fields)]


def _component(tokens: list[str], line: int, wrong: Callable[[int, str], Exception]) -> Component:
    for token in tokens[1:3]:
        if not (token.isascii() and token.isdigit()) or len(token) > 18:
            raise wrong(line, f"Could not find all necessary component parameters: {token[:40]!r} is not an offset or a size")
    offset, size = int(tokens[1]), int(tokens[2])
    if offset % BLOCK_SIZE or offset == 0:
        raise wrong(line, f"tar offset is not a multiple of tar block size ({BLOCK_SIZE}), or 0; is the size written before the offset?")
    return Component(tokens[0], offset, size, tokens[3] if len(tokens) > 3 else "")


def make_index(tar_path: str, index_path: str) -> None:
    """Scan an archive and store its samples. RuntimeError for names that the format cannot store."""
    lines = []
    for sample in grouped(scan(tar_path)):
        for component in sample:
            if len(os.fsencode(component.name).split()) != 1 or len(os.fsencode(component.extension).split()) != 1:
                raise RuntimeError(
                    f"{tar_path}: {component.name!r} cannot be written to an index: the name contains blanks, or ends in a dot"
                )
        lines.append(" ".join(f"{c.extension} {c.offset} {c.size} {c.name}" for c in sample))
    if not lines:
        raise RuntimeError(f"{tar_path} holds no samples")
    write_text(index_path, "\n".join([f"v1.2 {len(lines)}", *lines]) + "\n")

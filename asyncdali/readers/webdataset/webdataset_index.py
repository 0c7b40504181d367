"""Index files of WebDataset archives: ``v1.2 <samples>``, then per sample ``<ext> <offset> <size> <name>`` for each of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..containers.indices import read_text, write_text
from .tar import BLOCK_SIZE, Component, grouped, scan

_FIELDS = {"v1.1": 3, "v1.2": 4}


def read_index(path: str) -> Iterator[list[Component]]:
    """The samples of an index file. RuntimeError gives path and line of a malformed entry."""
    try:
        lines = read_text(path, "index file").decode("utf-8", "surrogateescape").split("\n")
    except RuntimeError as error:
        raise RuntimeError(f"{error} (index file of readers.webdataset)") from error

    def wrong(line: int, reason: str) -> RuntimeError:
        return RuntimeError(f'Malformed index file at "{path}" line {line} - {reason}')

    head = lines[0].split()
    if not head:
        raise wrong(1, "no version signature found")
    if head[0] not in _FIELDS:
        raise wrong(1, f"Unsupported version of the index file ({head[0][:40]}).")
    if len(head) < 2 or not head[1].isascii() or not head[1].lstrip("-").isdigit() or len(head[1]) > 18:
        raise wrong(1, "no sample count found")
    count, fields = int(head[1]), _FIELDS[head[0]]
    if count <= 0:
        raise wrong(1, "sample count must be positive")
    if count > len(lines):
        raise wrong(len(lines), f"no extensions provided for the sample (the header declares {count} samples)")
    for number in range(2, count + 2):
        tokens = lines[number - 1].split() if number <= len(lines) else []
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
            if not component.extension or len(component.name.split()) != 1 or len(component.extension.split()) != 1:
                raise RuntimeError(
                    f"{tar_path}: {component.name!r} cannot be written to an index: the name contains blanks, or ends in a dot"
                )
        lines.append(" ".join(f"{c.extension} {c.offset} {c.size} {c.name}" for c in sample))
    if not lines:
        raise RuntimeError(f"{tar_path} holds no samples")
    write_text(index_path, "\n".join([f"v1.2 {len(lines)}", *lines]) + "\n")

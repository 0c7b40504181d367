"""readers.webdataset: samples from tar archives, several files per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of
from ...messages.notices import warn
from ...operators.base import REQUIRED, Arg, CompiledJob, Environment, SampleError, Schema, Spec, Step, register
from ...types import DALIDataType
from ..base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, Draw, Origin, Reading, place_aligned
from ..containers.containers import ContainerReader, Containers, RecordNames, Records
from ..containers.record_tables import READ_RECORDS

if TYPE_CHECKING:
    from .tar import Component

_DTYPES = (
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64, DALIDataType.INT8, DALIDataType.INT16,
    DALIDataType.INT32, DALIDataType.INT64, DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64,
)  # fmt: skip
_BEHAVIORS = ("empty", "skip", "error")


class _Selection:
    """Assigns the components of a sample to outputs."""

    def __init__(self, extensions: Sequence[str], case_sensitive: bool):
        self._fold = (lambda text: text) if case_sensitive else str.lower
        self._outputs: dict[str, list[int]] = {}
        self.count = len(extensions)
        for output, alternatives in enumerate(extensions):
            for extension in set(alternatives.split(";")):
                self._outputs.setdefault(self._fold(extension), []).append(output)
        self._warned = False

    def choose(self, sample: list[Component], where: str) -> list[Component | None]:
        """The component of each output; the first if there are several, None if there is none."""
        chosen: list[Component | None] = [None] * self.count
        for component in sample:
            for output in self._outputs.get(self._fold(component.extension), ()):
                if chosen[output] is None:
                    chosen[output] = component
                elif not self._warned:
                    self._warned = True
                    warn(f"Multiple components matching output {output} at {where}; the first one is used", UserWarning)
        return chosen


@register
class WebdatasetReader(ContainerReader):
    schema = Schema(
        name="readers.webdataset",
        doc="""Reads samples from tar archives in the WebDataset format.

        Consecutive files of an archive that differ only in what follows the first dot of their names are one sample. Each entry of `ext`
        is an output: the file with that extension (or the first with one of several, separated by semicolons), 1-D, of UINT8 or `dtypes`.

        Index files (``asyncdali wds2idx``) save scanning the archives.""",
        inputs=(0, 0),
        outputs=lambda constants: max(1, len(constants["ext"])),
        seeded=True,
        args=(
            Arg("paths", "str_list", REQUIRED, "Tar archives.", path="read"),
            Arg("ext", "str_list", REQUIRED, "Extensions, one entry per output."),
            Arg("index_paths", "str_list", [], "Index files, one per archive.", path="read"),
            Arg(
                "missing_component_behavior", "str", "", stream=True,
                doc='Samples without a file for an output: "empty" output, "skip" them, or "error".',
            ),
            Arg("dtypes", "dtype_list", None, "Element types of the outputs."),
            Arg("case_sensitive_extensions", "bool", True, "Whether extensions are case-sensitive."),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from . import webdataset_kernels

        compile_all(webdataset_kernels)
        extensions, dtypes = spec.constant("ext"), spec.constant("dtypes")
        if not extensions or not all(extensions):
            raise RuntimeError("`ext` names no extension")
        self._extensions: list[str] = extensions
        self._dtypes: list[DALIDataType] = dtypes or [DALIDataType.UINT8] * len(extensions)
        if len(self._dtypes) != len(extensions):
            raise RuntimeError(
                f"Number of extensions does not match the number of provided types: {len(extensions)} and {len(self._dtypes)}"
            )
        for dtype in self._dtypes:
            if dtype not in _DTYPES:
                names = ", ".join(kind.name for kind in _DTYPES)
                raise RuntimeError(f"Unsupported output dtype {dtype.name}. Supported types are: {names}")
        self._behavior = spec.constant("missing_component_behavior").lower() or "empty"
        if self._behavior not in _BEHAVIORS:
            raise RuntimeError(f"`missing_component_behavior` is {self._behavior!r}; it must be one of {', '.join(_BEHAVIORS)}")
        super().__init__(spec, environment)

    # --- discovery

    def container_paths(self) -> list[str]:
        return list(self.spec.constant("paths"))

    def locate(self, containers: Containers) -> Records:
        from . import tar, webdataset_index

        paths, indices = containers.paths, self.spec.constant("index_paths")
        if indices and len(indices) != len(paths):
            raise RuntimeError(f"Number of index files must match the number of archives: {len(indices)} and {len(paths)} were given")
        selection = _Selection(self._extensions, self.spec.constant("case_sensitive_extensions"))
        table: list[tuple[int, int]] = []
        names: list[bytes] = []
        counts = []
        for k, path in enumerate(paths):
            before = len(table)
            samples = webdataset_index.read_index(indices[k]) if indices else tar.grouped(tar.scan(path))
            where = f'index file at "{indices[k]}"' if indices else f'tar file at "{path}"'
            for number, sample in enumerate(samples):
                self._add(sample, selection.choose(sample, where), table, names, where, number)
            counts.append((len(table) - before) // len(self._extensions))
            if indices and not containers.remote[k]:
                self._check_index(table[before:], path, indices[k])
        if not table:
            raise RuntimeError(f"no samples with the extensions {', '.join(self._extensions)} in {', '.join(paths)}")
        places = np.array(table, np.int64)
        self._samples = np.array(counts, np.int64)
        self._names = np.frombuffer(b"\0".join(names) + b"\0", np.uint8)
        lengths = np.fromiter((len(name) + 1 for name in names), np.int64, len(names))
        self._name_ends = np.cumsum(lengths)
        # One record per component; the records of a sample are adjacent.
        return Records(self._samples * len(self._extensions), places[:, 0].copy(), places[:, 1].copy())

    @staticmethod
    def _check_index(table: list[tuple[int, int]], path: str, index: str) -> None:
        """Look at the first and the last file of an index: an index of another archive would give other bytes without an error."""
        from . import tar

        found = [offset for offset, _ in table if offset]
        if not found:
            return
        wrong = tar.check_places(path, {found[0], found[-1]})
        if wrong is not None:
            raise RuntimeError(
                f"{index} does not fit {path}: no file of the archive begins at offset {wrong}; make the index again (asyncdali wds2idx)"
            )

    def _add(
        self, sample: list[Component], chosen: list[Any], table: list[tuple[int, int]], names: list[bytes], where: str, number: int
    ) -> None:
        if None in chosen:
            if self._behavior == "error":
                missing = chosen.index(None)
                place = f" line {number + 2}" if where.startswith("index") else ""
                found = ", ".join(component.name or component.extension for component in sample[:8]) + ", ..." * (len(sample) > 8)
                raise RuntimeError(
                    f"Underful sample detected at {where}{place}: sample {number} ({found}) has no file with the extension "
                    f"{self._extensions[missing]!r} of output {missing}"
                )
            if self._behavior == "skip":
                return
        for component in chosen:
            table.append((0, 0) if component is None else (component.offset, component.size))
            names.append(b"" if component is None else component.name.encode("utf-8", "surrogateescape") + b"\1")

    def discover(self) -> int:
        components = super().discover()
        self.containers = [int(count) for count in self._samples]
        return components // len(self._extensions)

    def origin_of(self, index: int) -> Origin:
        """The first component that the sample has; `part` names it."""
        width = len(self._extensions)
        component = next((k for k in range(index * width, (index + 1) * width) if self._marked_name(k)), index * width)
        return super().origin_of(component)._replace(part=self._marked_name(component)[:-1])

    def stretches(self, index: int) -> list[Origin]:
        width = len(self._extensions)
        return [super(WebdatasetReader, self).origin_of(k) for k in range(index * width, (index + 1) * width) if self._marked_name(k)]

    def _marked_name(self, component: int) -> str:
        """The name of a component, and one character that marks it in indices without names (1.1). Empty for a missing component."""
        start = 0 if component == 0 else int(self._name_ends[component - 1])
        return self._names[start : int(self._name_ends[component]) - 1].tobytes().decode("utf-8", "surrogateescape")

    def origin(self, index: int) -> str:
        name = self._marked_name(index)
        return f"{self.container_path(index)}:{int(self.records.offsets[index])}:{name[:-1]}" if name else ""

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return list(self._dtypes)

    def read(self, indices: np.ndarray) -> Reading:
        assert self._containers is not None
        files = self.records.files(indices * len(self._extensions))
        descriptors = self._containers.descriptors(files)
        steps, outputs = [], []
        for output, dtype in enumerate(self._dtypes):
            batch, step = self._component(indices * len(self._extensions) + output, dtype, files, descriptors)
            outputs.append(batch)
            if step is not None:
                steps.append(step)
        if steps:
            yield CompiledJob(len(indices), steps)
        return outputs

    def _component(
        self, components: np.ndarray, dtype: DALIDataType, files: np.ndarray, descriptors: np.ndarray
    ) -> tuple[Batch, Step | None]:
        """One output, in the mapped archive or in its own block, and the step that it waits for."""
        offsets, sizes = self.records.offsets[components], self.records.sizes[components]
        itemsize = storage_dtype(dtype).itemsize
        if itemsize > 1 and (sizes % itemsize).any():
            sample = int(np.argmax(sizes % itemsize != 0))
            raise SampleError(
                sample,
                f"{self.origin(int(components[sample]))}: component size and dtype incompatible: {sizes[sample]} bytes of {dtype.name}",
            )
        batch = Batch((sizes // itemsize).reshape(-1, 1), dtype, source_info=RecordNames(self.origin, components))
        # Numbers are aligned in the map, because members of archives begin on multiples of 512.
        found = self.mapped(components, files, descriptors, offsets, sizes)
        if found is not None:
            batch.addresses[:], _, batch.owner = found
            return batch, None
        place_aligned(batch, self.environment.allocate)
        context, keep = READ_RECORDS.make(descriptors=descriptors, offsets=offsets, lengths=sizes, needed=sizes, addresses=batch.addresses)
        if self.is_small(sizes) and not self._reading.read_at_once(address_of(context), len(components)):
            return batch, None
        return batch, Step(self._reading.read_record.address, context, self._explain_read(components), keep=[*keep, batch])

    def parts(self, indices: np.ndarray) -> np.ndarray:
        width = len(self._extensions)
        return (indices[:, None] * width + np.arange(width)).ravel()

    def ahead(self, draw: Draw) -> np.ndarray | None:
        ahead = super().ahead(draw)
        return None if ahead is None else self.parts(ahead)

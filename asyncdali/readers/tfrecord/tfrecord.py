"""readers.tfrecord: features of tensorflow.Example records."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...errors import OperatorError, OperatorTypeError
from ...messages.notices import warn
from ...operators.base import REQUIRED, Arg, CompiledJob, Environment, SampleError, Schema, Spec, Step, no_explanation, register
from ...types import DALIDataType
from ..base import SHUFFLE_AFTER_EPOCH_ARGS, Reading, reader_args
from ..containers.compressed import named_compression
from ..containers.containers import ContainerReader, Containers, Fetched, Records
from ..remote.remote import exists, is_remote
from . import features as feature_kinds
from .features import Feature
from .tfrecord_tables import FEATURE, FLOATS, INTEGERS, PARSE_EXAMPLE, TEXTS, WRITE_NUMBERS

_DTYPES = {feature_kinds.int64: DALIDataType.INT64, feature_kinds.float32: DALIDataType.FLOAT, feature_kinds.string: DALIDataType.UINT8}
_STORED = {feature_kinds.string: TEXTS, feature_kinds.float32: FLOATS, feature_kinds.int64: INTEGERS}
"""Kind of the list in a Feature message."""

word = FEATURE.word


def _features(constants: dict[str, object]) -> dict[str, Feature]:
    features = constants["features"]
    if not isinstance(features, dict) or not all(isinstance(value, Feature) for value in features.values()):
        raise OperatorTypeError(f"argument 'features' must be a dictionary of tfrecord.FixedLenFeature and VarLenFeature, got {features!r}")
    if not features:
        raise OperatorError("argument 'features' is empty; name at least one feature")
    return features


@register
class TFRecordReader(ContainerReader):
    schema = Schema(
        name="readers.tfrecord",
        doc="""Reads features of ``tensorflow.Example`` records from TFRecord files.

        `features` names them: ``{"image": tfrecord.FixedLenFeature((), tfrecord.string, ""), "box": tfrecord.VarLenFeature([4],
        tfrecord.float32, 0.0)}``. The result is a dictionary of the same names. Fixed features have the declared shape, and the default
        where values are missing; variable ones are as long as the record has values (0 if the feature is missing). A string is
        the bytes of its first element (1-D UINT8). Values that are stored as another kind than the declared one are an error.

        An index (one line ``offset size`` per record) determines which records are read, and their order. Without `index_path` the
        files are scanned. An index file that does not exist is written. Checksums are verified.""",
        inputs=(0, 0),
        outputs=lambda constants: len(_features(constants)),
        positional=("path", "index_path", "features"),
        results=lambda constants, outputs: dict(zip(_features(constants), outputs, strict=True)),
        seeded=True,
        aliases=("tfrecord_reader",),
        args=(
            Arg("path", "str_list", REQUIRED, "TFRecord files.", path="read"),
            Arg("index_path", "str_list", None, "The index files, one per file of `path`; missing ones are written.", path="read"),
            Arg("features", "any", REQUIRED, "Features by name; made by tfrecord.FixedLenFeature and VarLenFeature."),
            Arg("use_o_direct", "bool", False, "Read past the system's cache; needs `dont_use_mmap`."),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *reader_args("Not supported: True is an error, as in DALI."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from . import tfrecord_kernels

        self._kernels = tfrecord_kernels
        compile_all(tfrecord_kernels)
        if spec.constant("skip_cached_images"):
            raise RuntimeError("readers.tfrecord does not support `skip_cached_images`")
        self._features = _features(spec.constants)
        for name, feature in self._features.items():
            if feature.kind == feature_kinds.string and (not feature.fixed or feature.volume > 1):
                raise RuntimeError(f"Tensors of strings are not supported. (feature {name!r}: {feature!r}; the shape of a string is ())")
        self._name_bytes = [np.frombuffer(name.encode() + b"\0", np.uint8) for name in self._features]
        self._names = np.array([name.ctypes.data for name in self._name_bytes], np.int64)
        self._name_lengths = np.array([len(name) - 1 for name in self._name_bytes], np.int64)
        self._kinds = np.array([_STORED[feature.kind] for feature in self._features.values()], np.int64)
        super().__init__(spec, environment)

    # --- discovery

    def locate(self, containers: Containers) -> Records:
        from . import tfrecord_index

        paths, indices = containers.paths, self.spec.constant("index_path")
        if indices is not None and len(indices) != len(paths):
            raise RuntimeError(
                f"Number of index files needs to match the number of data files: {len(indices)} and {len(paths)} were given"
            )
        if indices is None:
            records = Records.joined(tfrecord_index.scan(path) for path in paths)
        else:
            access = self.environment.access
            records = Records.joined(_indexed(path, index, access.may_write(index)) for path, index in zip(paths, indices, strict=True))
        for path, index, size, count in zip(paths, indices or paths, containers.sizes, records.counts, strict=True):
            if count == 0 and size > 0:
                raise RuntimeError(f"Content of index files should not be empty: {index} names no records, {path} has {size} bytes")
        if not len(records):
            raise RuntimeError(f"Content of index files should not be empty: there are no records in {', '.join(paths)}")
        return records

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [_DTYPES[feature.kind] for feature in self._features.values()]

    def read(self, indices: np.ndarray) -> Reading:
        found = np.zeros((len(indices), len(self._features), FEATURE.words), np.int64)

        def parse(fetched: Fetched) -> list[Step]:
            context, keep = PARSE_EXAMPLE.make(
                addresses=fetched.addresses, sizes=fetched.sizes, features=len(self._features), names=self._names,
                name_lengths=self._name_lengths, kinds=self._kinds, found=found,
            )  # fmt: skip
            return [Step(self._kernels.parse_example.address, context, self._explain(indices, found), keep=keep)]

        fetched, job = self.fetch(indices, parse, brief=False)  # not brief: checksums read every byte
        yield job
        outputs: list[Batch] = []
        numbers: list[tuple[int, Batch]] = []
        for k, feature in enumerate(self._features.values()):
            here = found[:, k]
            counts = here[:, word.values]
            if feature.kind == feature_kinds.string:
                outputs.append(self._text(fetched, feature, here, counts > 0))
                continue
            output = self._fixed(indices, feature, counts) if feature.fixed else self._variable(indices, feature, counts)
            output.source_info = self.names(indices)
            outputs.append(output)
            if counts.any():
                numbers.append((k, output))
        if numbers:
            yield self._write(found, numbers)
        return outputs

    def _text(self, fetched: Fetched, feature: Feature, found: np.ndarray, present: np.ndarray) -> Batch:
        """The first string of each record, in the memory that it was read into; elsewhere the default."""
        addresses, lengths = found[:, word.text_address].copy(), found[:, word.text_length].copy()
        if present.all():
            return self.view(fetched, addresses, lengths.reshape(-1, 1), DALIDataType.UINT8)
        filling = feature.filling().copy()
        addresses[~present], lengths[~present] = filling.ctypes.data, len(filling)
        batch = self.view(fetched, addresses, lengths.reshape(-1, 1), DALIDataType.UINT8)
        batch.owner = (fetched.owner, filling)
        return batch

    def _fixed(self, indices: np.ndarray, feature: Feature, counts: np.ndarray) -> Batch:
        if counts.max(initial=0) > feature.volume:
            sample = int(np.argmax(counts > feature.volume))
            raise SampleError(
                sample,
                f"{self.origin(int(indices[sample]))}: Output tensor shape is too small: {list(feature.shape or ())}. "
                f"Expected at least {counts[sample]} elements.",
            )
        shape = (len(indices), *(feature.shape or ()))
        values = limits.new_array(math.prod(shape), feature.numpy, f"features of shape {list(shape[1:])}").reshape(shape)
        values[...] = feature.filling()
        return Batch.from_values(values)

    def _variable(self, indices: np.ndarray, feature: Feature, counts: np.ndarray) -> Batch:
        slices, rest = np.divmod(counts, feature.volume)
        if rest.any():
            sample = int(np.argmax(rest > 0))
            raise SampleError(
                sample,
                f"{self.origin(int(indices[sample]))}: Feature size not matching partial shape: {counts[sample]} values, "
                f"slices of {list(feature.partial)}",
            )
        shapes = np.empty((len(indices), 1 + len(feature.partial)), np.int64)
        shapes[:, 0], shapes[:, 1:] = slices, feature.partial
        batch = Batch(shapes, _DTYPES[feature.kind])
        batch.reserve(self.environment.allocate)
        return batch

    def _write(self, found: np.ndarray, numbers: list[tuple[int, Batch]]) -> CompiledJob:
        which = np.array([k for k, _ in numbers], np.int64)
        targets = np.array([output.addresses.ctypes.data for _, output in numbers], np.int64)
        context, keep = WRITE_NUMBERS.make(
            found=found, features=len(self._features), count=len(numbers), which=which,
            kinds=self._kinds[which], targets=targets,
        )  # fmt: skip
        return CompiledJob(len(found), [Step(self._kernels.write_numbers.address, context, no_explanation, keep=[*keep, numbers])])

    def _explain(self, indices: np.ndarray, found: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            from . import tfrecord_index

            index = int(indices[sample])
            reason = self._wrong_kind(found[sample]) if code == self._kernels.WRONG_KIND else tfrecord_index.explain(code)
            hint = named_compression(self.container_path(index)) if code == self._kernels.LENGTH_SUM else ""
            return f"{self.origin(index)} (record {index}, {self.records.sizes[index]} bytes): {reason}{hint}"

        return explain


    def _wrong_kind(self, found: np.ndarray) -> str:
        """The first feature of a record whose values are of another kind than the declared one."""
        wrong = (found[:, word.values] > 0) & (found[:, word.kind] != self._kinds)
        k = int(np.argmax(wrong))
        name, feature = list(self._features.items())[k]
        stored = next(feature_kinds.NAMES[kind] for kind, number in _STORED.items() if number == found[k, word.kind])
        declared = feature_kinds.NAMES[feature.kind]
        return f"the feature {name!r} is stored as {stored}, and declared as {declared}; declare it as tfrecord.{stored}"


def _indexed(path: str, index: str, may_write: bool) -> tuple[np.ndarray, np.ndarray]:
    """The records that an index names. If the index does not exist, those of a scan, which is stored if that is allowed."""
    from . import tfrecord_index

    if exists(index):
        return tfrecord_index.read_index(index)
    if is_remote(index) or not may_write:
        hint = "" if may_write else " (a graph from outside writes only where `allow_write` of Pipeline.deserialize says so)"
        warn(f"the index {index} of {path} does not exist; scanned in memory{hint}", UserWarning)
        return tfrecord_index.scan(path)
    try:
        return tfrecord_index.make_index(path, index)
    except OSError as error:
        warn(f"the index {index} of {path} does not exist and cannot be written ({error.strerror}); scanned in memory", UserWarning)
        return tfrecord_index.scan(path)

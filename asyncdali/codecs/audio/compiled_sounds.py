"""The sounds that compiled code decodes (``audio_decoder_kernels``): those of a batch in memory, or one whole FLAC or Ogg Vorbis file."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.job_tables import THREAD
from ...types import DALIDataType
from .audio_decoder_tables import SCAN, SOUND, SOUNDS
from .vorbis_setup import IDENTIFICATION, setup_of

if TYPE_CHECKING:
    from ...compiled.step import Compiled

_KINDS = ("int16", "int32", "float32")
"""Element types in the order of ``audio_decoder_kernels``."""
_ALIGNED = 64


def kind_of(dtype: np.dtype) -> int:
    """The number that stands for an element type in the tables."""
    return _KINDS.index(dtype.name)


def kernels() -> ModuleType:
    """The kernels. They are imported at the first use, because they need Numba."""
    from . import audio_decoder_kernels

    return audio_decoder_kernels


def compile_decoders() -> None:
    """Compile what every batch needs: :func:`scanned`, and the step of WAV files.

    The kernels of FLAC and Vorbis are compiled when the first such file comes: they take 9 s of a processor, and only the headers say which
    files a data set has.
    """
    for function in (kernels().scan_sounds, kernels().wav_step):
        function.compile()


def pages_are_intact(data: bytes) -> bool:
    """Whether a file consists of whole Ogg pages with the right checksums."""
    file = np.frombuffer(data, np.uint8)
    return bool(kernels().pages_are_intact(address_of(file), len(file)))


@dataclass
class Scan:
    """The SOUND of each sample; how many files compiled code decodes, how many of them have which format, its bytes of scratch, and what
    it needs beside the table."""

    records: np.ndarray
    known: int
    flac: int
    vorbis: int
    scratch: int
    keep: list[Any]

    def steps(self) -> list[Compiled]:
        """The steps that decode the files, one for each format in the batch. Each leaves the files of other formats alone."""
        found = kernels()
        needed = (found.wav_step, self.known > self.flac + self.vorbis), (found.flac_step, self.flac), (found.vorbis_step, self.vorbis)
        return [step for step, count in needed if count]

    def left(self) -> list[int]:
        """The samples that compiled code did not decode, behind its job. Without scratch there are WAV files only, which never fail."""
        if self.known == len(self.records) and not self.scratch:
            return []
        undone = (self.records[:, SOUND.word.format] == 0) | (self.records[:, SOUND.word.failed] != 0)
        return np.flatnonzero(undone).tolist()

    def table(self, source: Batch, outputs: np.ndarray, kind: int) -> tuple[np.ndarray, list[object]]:
        """The table of the step that decodes the files of `source` to the addresses `outputs`, and what must live as long as the table."""
        table, keep = SOUNDS.make(inputs=source.addresses, outputs=outputs, records=self.records, kind=kind, scratch=0)
        return table, keep + self.keep


def scanned(source: Batch, wanted: np.ndarray, kind: int, downmix: int) -> Scan:
    """Read the headers of the files in a batch, and decide which files compiled code decodes. `wanted` has the rates, float32[samples]."""
    count = len(source)
    records, sizes = np.empty((count, SOUND.words), np.int64), np.ascontiguousarray(source.shapes[:, 0])
    context, _ = SCAN.make(
        inputs=source.addresses, sizes=sizes, wanted=wanted, records=records, kind=kind, downmix=downmix, later=0, known=0, flac=0,
        vorbis=0, scratch=0,
    )  # fmt: skip
    kernels().scan_sounds(address_of(context), count)
    if context[SCAN.word.later]:
        kernels().scan_compressed(address_of(context), count)
    known, flac, vorbis, scratch = context[SCAN.span("known", "scratch")].tolist()
    scan = Scan(records, known, flac, vorbis, scratch, [])
    if scan.vorbis:
        for k in np.flatnonzero(records[:, SOUND.word.format] == kernels().VORBIS).tolist():
            _set_up(source.sample(k), scan, k)
    return scan


def _set_up(file: np.ndarray, scan: Scan, k: int) -> None:
    """Prepare the tables of a Vorbis file, uint8[bytes], or leave the file to the interpreter."""
    record = scan.records[k]
    headers = np.empty(record[SOUND.word.data], np.uint8)
    texts = kernels().vorbis_headers(address_of(file), address_of(record), address_of(headers))
    packet = headers[texts : texts + record[SOUND.word.setup]].tobytes()
    setup = setup_of(file[IDENTIFICATION].tobytes(), packet) if texts >= 0 else None
    if setup is None:
        record[:] = 0
        scan.known -= 1
        scan.vorbis -= 1
    else:
        record[SOUND.word.setup] = setup.address
        scan.keep.append(setup)


class NotDecoded(Exception):
    """Our own decoders cannot decode a file, which the text describes: it is damaged, or of a kind that only libsndfile knows."""


class WholeSound:
    """A FLAC or Ogg Vorbis file in memory that compiled code decodes, once. NotDecoded if the headers are of another kind.

    `what` describes the file if it cannot be decoded.
    """

    def __init__(self, data: bytes, what: str):
        self._what = what
        file = np.frombuffer(data, np.uint8)
        self._source = Batch(np.array([[len(file)]], np.int64), DALIDataType.UINT8, "", np.array([file.ctypes.data], np.int64), file)
        self._scan = scanned(self._source, np.zeros(1, np.float32), kernels().FLOAT, 0)
        if not self._scan.known:
            raise NotDecoded(self._what)
        record = self._scan.records[0]
        self.rate, self.channels = float(record[SOUND.word.rate]), int(record[SOUND.word.channels])
        self.frames = int(record[SOUND.word.frames])

    def read(self, first: int, count: int, dtype: np.dtype) -> np.ndarray:
        """Decode `count` samples of each channel from sample `first` on: [count, channels]. NotDecoded for damaged data.

        FLAC files are decoded as a whole. Of Vorbis files, all pages are checked and the wanted ones are decoded.
        """
        from .vorbis_kernels import find_part

        record, begin = self._scan.records[0], 0
        if record[SOUND.word.format] == kernels().VORBIS and count < self.frames:
            if find_part(address_of(self._source.sample(0)), address_of(record), first):
                raise NotDecoded(self._what)
            record[SOUND.word.first], record[SOUND.word.frames], begin = first, first + count, first
        samples = np.empty((record[SOUND.word.frames] - begin, self.channels), dtype)
        table, keep = self._scan.table(self._source, np.array([samples.ctypes.data], np.int64), kind_of(dtype))
        scratch = np.empty(self._scan.scratch + _ALIGNED, np.uint8)
        thread = np.zeros(THREAD.words, np.int64)
        thread[THREAD.word.scratch] = -(-scratch.ctypes.data // _ALIGNED) * _ALIGNED
        thread[THREAD.word.scratch_bytes] = self._scan.scratch
        for step in self._scan.steps():
            step(address_of(table), 0, address_of(thread))
        del keep  # The kernel has returned.
        if record[SOUND.word.failed]:
            raise NotDecoded(self._what)
        return samples[first - begin : first - begin + count]

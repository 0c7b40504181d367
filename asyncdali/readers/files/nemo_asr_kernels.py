"""Reads parts of WAV files without the interpreter.

One step opens the files and reads their heads. A small file is in memory then. Another step reads the wanted part of each file, converted,
into the output. Files with anything else (no WAV, broken parts, long heads) are left to the interpreter's decoder.
"""

from __future__ import annotations

import numpy as np

from ...codecs.audio.audio_decoder_kernels import INT16, PCM, REAL, RIFF, WAVE, convert_wav, scan_wav
from ...codecs.audio.audio_decoder_tables import SOUND
from ...compiled import kinds
from ...compiled.intrinsics import larger, load_f64, load_i32, load_i64, smaller, store_i64
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ..containers.record_kernels import open_file, read_at
from .nemo_asr_tables import OPEN_SPEECH, READ_SPEECH

_close = kinds.ExternalFunction("close", kinds.int32(kinds.int32))
_lseek = kinds.ExternalFunction("lseek", kinds.int64(kinds.int32, kinds.int64, kinds.int32))
_pread = kinds.ExternalFunction("pread", kinds.int64(kinds.int32, kinds.int64, kinds.int64, kinds.int64))

opening, reading, sound, thread_at = OPEN_SPEECH.at, READ_SPEECH.at, SOUND.at, THREAD.at

HEAD = 4096
"""Bytes of a file that are read when it is opened. Most headers end before."""
PIECE = 3 << 15
"""Bytes that are converted at a time: a multiple of the bytes of every kind of sample, and small enough for the processor's cache."""
_SEEK_END = 2


@inlined
def _choose(context, sample, record):
    """Make the record of a file describe the wanted part. Returns its format, or 0 if the part cannot be read here."""
    format, channels, rate = load_i64(record + sound.format), load_i64(record + sound.channels), load_i64(record + sound.rate)
    wanted_rate, frames = load_i64(context + opening.rate), load_i64(record + sound.frames)
    window = load_i64(context + opening.windows) + 16 * load_i64(load_i64(context + opening.indices) + 8 * sample)
    if wanted_rate != 0 and rate != wanted_rate:
        return 0
    if (load_i64(context + opening.mono) != 0 and channels != 1) or (load_i64(context + opening.exact) != 0 and format != PCM):
        return 0
    first = np.float64(larger(load_f64(window), np.float64(0.0)) * rate)
    if not first < frames + 1:
        return 0
    begin = np.int64(first)
    count, length = frames - begin, np.float64(load_f64(window + 8) * rate)
    if length >= 0 and length < count:
        count = np.int64(length)
    store_i64(record + sound.data, load_i64(record + sound.data) + begin * channels * (load_i64(record + sound.bits) // 8))
    store_i64(record + sound.frames, count)
    return format


@step
def open_speech(context, sample, thread):
    """Open a file, read its head and find the wanted part. Other files than plain WAV files get the format 0 and are closed."""
    path = load_i64(context + opening.paths) + load_i64(load_i64(context + opening.starts) + 8 * sample)
    record = load_i64(context + opening.records) + sound.size * sample
    store_i64(record + sound.format, 0)
    store_i64(record + sound.failed, 0)
    fd = open_file(path, 0)
    if fd < 0:
        return 0
    head = load_i64(context + opening.heads) + HEAD * sample
    held = _pread(fd, head, HEAD, 0)
    size = held if held < HEAD else _lseek(fd, 0, _SEEK_END)
    format = 0
    if held >= 12 and load_i32(head) == RIFF and load_i32(head + 8) == WAVE:
        store_i64(record + sound.format, scan_wav(head, held, size, record))
        format = _choose(context, sample, record) if load_i64(record + sound.format) != 0 else 0
    store_i64(record + sound.format, format)
    store_i64(load_i64(context + opening.held) + 8 * sample, held)
    if format != 0 and held < size and sample < load_i64(context + opening.may_stay_open):
        store_i64(load_i64(context + opening.descriptors) + 8 * sample, fd)
    else:
        _close(fd)
    return 0


@inlined
def _read_pieces(fd, place, count, record, out, kind, scratch):
    """Read and convert `count` numbers from byte `place` on. Status: errno, or SHORT_READ."""
    bits, format = load_i64(record + sound.bits), load_i64(record + sound.format)
    stored, made = bits // 8, 2 if kind == INT16 else 4
    if (format == REAL and bits == 32) or (format == PCM and bits == 16 and kind == INT16):
        return read_at(fd, place, stored * count, stored * count, out)
    done = 0
    while done < count:
        some = smaller(PIECE // stored, count - done)
        code = read_at(fd, place + stored * done, stored * some, stored * some, scratch)
        if code != 0:
            return code
        convert_wav(scratch, some, format, bits, out + made * done, kind)
        done += some
    return 0


@step
def read_speech(context, sample, thread):
    """Read the wanted part of a file and close the file. Errors are noted in the record."""
    record = load_i64(context + reading.records) + sound.size * sample
    format, bits = load_i64(record + sound.format), load_i64(record + sound.bits)
    if format == 0:
        return 0
    place, count = load_i64(record + sound.data), load_i64(record + sound.frames) * load_i64(record + sound.channels)
    out, kind = load_i64(load_i64(context + reading.outputs) + 8 * sample), load_i64(context + reading.kind)
    slot = load_i64(context + reading.descriptors) + 8 * sample
    if place + count * bits // 8 <= load_i64(load_i64(context + reading.held) + 8 * sample):
        convert_wav(load_i64(context + reading.heads) + HEAD * sample + place, count, format, bits, out, kind)
        return 0
    fd = load_i64(slot)
    if fd < 0:
        fd = open_file(load_i64(context + reading.paths) + load_i64(load_i64(context + reading.starts) + 8 * sample), 0)
        if fd < 0:
            store_i64(record + sound.failed, 1)
            return 0
    scratch = load_i64(thread + thread_at.scratch) + load_i64(context + reading.scratch)
    code = _read_pieces(fd, place, count, record, out, kind, scratch)
    store_i64(slot, -1)
    _close(fd)
    store_i64(record + sound.failed, 1 if code != 0 else 0)
    return 0

"""Compiled decoding of sound: headers of WAV, FLAC and Ogg files, and WAV samples converted to another type.

Only regular files are decoded here. A file with anything else (broken parts, other encodings) is left to the interpreter's decoder
(``audio_formats``), which reads the file or names its error.
Sources: Microsoft's RIFF and WAVEFORMATEX; RFC 9639 (FLAC).
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import (
    clear_bytes,
    copy_bytes,
    larger,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    smaller,
    store_i64,
    view_f32,
    view_f64,
    view_i32,
    view_of,
)
from ...compiled.job_tables import THREAD
from ...compiled.step import compiled, inlined, step
from .audio_decoder_tables import SCAN, SOUND, SOUNDS
from .flac_kernels import decode_flac
from .ogg_kernels import OGG_MARK, gather_headers, is_header, is_intact, page_bytes, scan_ogg
from .vorbis_kernels import decode_vorbis, vorbis_scratch
from .wav_headers import EXTENSIBLE, GUID, LEAST_UNFINISHED, MOST_CHANNELS, MOST_RATE, RESYNC, UNFINISHED

PCM, REAL, FLAC, VORBIS = 1, 2, 3, 4
"""Sample formats: integers and floats of WAV files; FLAC; Vorbis in Ogg."""
SCAN_LATER = -1
"""The format of a file whose header is not read yet."""
INT16, INT32, FLOAT = 0, 1, 2
RIFF, WAVE, _FORMAT, _DATA, _FLAC_MARK = (int.from_bytes(name, "little") for name in (b"RIFF", b"WAVE", b"fmt ", b"data", b"fLaC"))
_KIND_PCM, _KIND_FLOAT, _KIND_EXTENSIBLE = 1, 3, 0xFFFE
_GUID_LOW_AT, _GUID_HIGH_AT = 26, 32
_GUID_LOW, _GUID_HIGH = (int.from_bytes(GUID[k : k + 8], "little", signed=True) for k in (0, 6))
_LEAST_BLOCK, _LARGEST_BLOCK, _LEAST_FRAME = 16, 65535, 10
_PADDING, _APPLICATION, _PLACES, _TAGS, _PICTURE = 1, 2, 3, 4, 6
"""Kinds of blocks of metadata in FLAC files."""
_COMMENT = 3

record_at, at, scan_at, thread_at = SOUND.at, SOUNDS.at, SCAN.at, THREAD.at
_view_i16 = view_of(np.dtype(np.int16))
_F = np.float32


@inlined
def _load_u32(address):
    return load_i32(address) & 0xFFFFFFFF


@inlined
def _extensible(data, kind):
    """The kind in an extensible format; `kind` if the bytes behind are not Microsoft's KSDATAFORMAT_SUBTYPE."""
    if load_i64(data + _GUID_LOW_AT) == _GUID_LOW and load_i64(data + _GUID_HIGH_AT) == _GUID_HIGH:
        return load_u16(data + 24)
    return kind


@inlined
def _is_name(place):
    """Whether four bytes are printable, as those of the name of a chunk are."""
    printable = True
    for k in range(4):
        printable = printable and 32 <= load_u8(place + k) < 127
    return printable


@inlined
def scan_wav(file, held, size, record):
    """Read the header of a WAV file of `size` bytes, of which the first `held` are in memory. Returns the format; 0: not for us.

    ``audio_formats`` explains the rules.
    """
    place, kind, channels, bits, rate = 12, 0, 0, 0, 0
    while place + 8 <= held:
        name, length = _load_u32(file + place), smaller(_load_u32(file + place + 4), size - place - 8)
        data = file + place + 8
        if name == _FORMAT:
            if channels != 0 or length < 16 or place + 8 + smaller(length, EXTENSIBLE) > held:
                return 0
            kind, channels, rate, bits = load_u16(data), load_u16(data + 2), _load_u32(data + 4), load_u16(data + 14)
            if channels == 0 or channels > MOST_CHANNELS or rate == 0 or rate > MOST_RATE:
                return 0
            if kind == _KIND_EXTENSIBLE and length >= EXTENSIBLE:
                kind = _extensible(data, kind)
        elif name == _DATA:
            integers = kind == _KIND_PCM and (bits == 8 or bits == 16 or bits == 24 or bits == 32)
            if channels == 0 or not (integers or (kind == _KIND_FLOAT and (bits == 32 or bits == 64))):
                return 0
            if length == 0 and _load_u32(file + 4) == UNFINISHED and size > LEAST_UNFINISHED:
                length = size - place - 8
            store_i64(record + record_at.data, place + 8)
            store_i64(record + record_at.bytes, length)
            store_i64(record + record_at.frames, length // (bits // 8 * channels))
            store_i64(record + record_at.channels, channels)
            store_i64(record + record_at.bits, bits)
            store_i64(record + record_at.rate, rate)
            return PCM if integers else REAL
        if _is_name(file + place):
            place += 8 + length + (length & 1)
        elif place & 3 != 0:
            place += RESYNC
        else:
            return 0
    return 0


@inlined
def _big_endian(address, count):
    value = np.int64(0)
    for k in range(count):
        value = value << 8 | load_u8(address + k)
    return value


@inlined
def _tags_end(tags, length):
    """Bytes of the texts of a block of tags; -1 if they do not fit into its `length` bytes. libsndfile refuses such files."""
    place, left = np.int64(0), 1  # One text: the vendor's name. The number of tags follows it.
    counted = False
    while left > 0:
        if place + 4 > length:
            return np.int64(-1)
        place += 4 + _load_u32(tags + place)
        left -= 1
        if not counted:
            if place + 4 > length:
                return np.int64(-1)
            left, counted = _load_u32(tags + place), True
            place += 4
    return place if place <= length else np.int64(-1)


@inlined
def _picture_fits(picture, length):
    """Whether the texts and the bytes of a picture fill its `length` bytes."""
    if length < 32:
        return False
    texts = 8 + _big_endian(picture + 4, 4)
    if texts + 24 > length:
        return False
    texts += 4 + _big_endian(picture + texts, 4)
    return texts + 20 <= length and texts + 20 + _big_endian(picture + texts + 16, 4) == length


@inlined
def _is_sound(kind, block, length):
    """Whether a block of metadata behind STREAMINFO is one that libFLAC accepts, too. It has the last word about unusual ones."""
    if kind == _TAGS:
        return _tags_end(block, length) == length
    if kind == _PICTURE:
        return _picture_fits(block, length)
    if kind == _PLACES:
        return length % 18 == 0
    return kind == _PADDING or (kind == _APPLICATION and length >= 4)


@inlined
def _scan_flac(file, size, record):
    """Read STREAMINFO, which comes first. The other blocks of metadata are checked and skipped."""
    if size < 42 or load_u8(file + 4) & 0x7F != 0 or _big_endian(file + 5, 3) != 34:
        return 0
    place = 4
    last = False
    while not last:
        if place + 4 > size:
            return 0
        last = load_u8(file + place) >> 7 != 0
        length = _big_endian(file + place + 1, 3)
        kind = load_u8(file + place) & 0x7F
        if place + 4 + length > size or (place > 4 and not _is_sound(kind, file + place + 4, length)):
            return 0
        place += 4 + length
    info = file + 8
    packed = _big_endian(info + 10, 8)
    bits, frames = (packed >> 36 & 31) + 1, packed & 0xFFFFFFFFF
    block, rate = _big_endian(info + 2, 2), packed >> 44 & 0xFFFFF
    # The number of samples decides how much memory is allocated: a frame has at most 65,535 samples.
    known = bits == 8 or bits == 16 or bits == 24
    if frames == 0 or rate == 0 or not known or block < _LEAST_BLOCK or frames > (size - place) // _LEAST_FRAME * _LARGEST_BLOCK:
        return 0
    store_i64(record + record_at.data, place)
    store_i64(record + record_at.bytes, size - place)
    store_i64(record + record_at.frames, frames)
    store_i64(record + record_at.channels, (packed >> 41 & 7) + 1)
    store_i64(record + record_at.bits, bits)
    store_i64(record + record_at.rate, rate)
    store_i64(record + record_at.block, block)
    return FLAC


@inlined
def _compressed_format(file, size, record):
    """Read the header of a FLAC or Ogg file to its SOUND. Returns the format; 0: not for us."""
    if _load_u32(file) == OGG_MARK:
        return np.int64(VORBIS if scan_ogg(file, size, record) else 0)
    return np.int64(_scan_flac(file, size, record))


@inlined
def _is_for_us(context, record, format, wanted):
    """Whether no sample has to be resampled, mixed or (floats of WAV files to integers) rounded."""
    channels, rate = load_i64(record + record_at.channels), load_i64(record + record_at.rate)
    if format == 0 or (format == REAL and load_i64(context + scan_at.kind) != FLOAT):
        return False
    return (wanted <= 0 or wanted == rate) and (channels == 1 or load_i64(context + scan_at.downmix) == 0)


@inlined
def _scratch_bytes(record, format):
    channels, block = load_i64(record + record_at.channels), load_i64(record + record_at.block)
    if format == FLAC:
        return 4 * channels * block
    return vorbis_scratch(channels, block) if format == VORBIS else np.int64(0)


@inlined
def _noted(context, record, format, wanted):
    """Complete the record of a file with a header of this format. Returns whether the file is for us; if not, the record is cleared."""
    if not _is_for_us(context, record, format, wanted):
        clear_bytes(record, record_at.size)
        return 0
    store_i64(record + record_at.format, format)
    store_i64(record + record_at.part, 0)
    store_i64(record + record_at.first, 0)
    store_i64(record + record_at.failed, 0)
    return 1


@compiled(2)
def scan_sounds(context, count):
    """Read the headers of `count` files; `context` is a SCAN. Files that are left to the interpreter have the format 0, and no samples.

    FLAC and Ogg files get the format SCAN_LATER, for :func:`scan_compressed`.
    """
    wanted, known, later = view_f32(load_i64(context + scan_at.wanted), count), 0, 0
    for k in range(count):
        file, size = load_i64(load_i64(context + scan_at.inputs) + 8 * k), load_i64(load_i64(context + scan_at.sizes) + 8 * k)
        record = load_i64(context + scan_at.records) + record_at.size * k
        mark, format = _load_u32(file) if size >= 12 else 0, np.int64(0)
        if mark == OGG_MARK or mark == _FLAC_MARK:
            store_i64(record + record_at.format, SCAN_LATER)
            later += 1
            continue
        if mark == RIFF and _load_u32(file + 8) == WAVE:
            format = np.int64(scan_wav(file, size, size, record))
        known += _noted(context, record, format, wanted[k])
    store_i64(context + scan_at.known, known)
    store_i64(context + scan_at.later, later)
    return 0


@compiled(2)
def scan_compressed(context, count):
    """Read the headers of the FLAC and Ogg files that :func:`scan_sounds` found."""
    wanted, scratch, flac, vorbis = view_f32(load_i64(context + scan_at.wanted), count), np.int64(0), 0, 0
    for k in range(count):
        file, size = load_i64(load_i64(context + scan_at.inputs) + 8 * k), load_i64(load_i64(context + scan_at.sizes) + 8 * k)
        record = load_i64(context + scan_at.records) + record_at.size * k
        if load_i64(record + record_at.format) == SCAN_LATER:
            format = _compressed_format(file, size, record)
            if _noted(context, record, format, wanted[k]) != 0:
                scratch = larger(scratch, _scratch_bytes(record, format))
                flac += 1 if format == FLAC else 0
                vorbis += 1 if format == VORBIS else 0
    store_i64(context + scan_at.known, load_i64(context + scan_at.known) + flac + vorbis)
    store_i64(context + scan_at.flac, flac)
    store_i64(context + scan_at.vorbis, vorbis)
    store_i64(context + scan_at.scratch, scratch)
    return 0


@compiled(3)
def vorbis_headers(file, record, out):
    """Copy the second and the third header of a Vorbis stream to `out`. Returns the bytes of the second one; -1 if it is wrong."""
    end = load_i64(record + record_at.data)
    total = gather_headers(file, end, out)
    texts = total - load_i64(record + record_at.setup)
    if texts < 8 or not is_header(out, _COMMENT):
        return -1
    last = _tags_end(out + 7, texts - 8)
    return texts if last >= 0 and load_u8(out + 7 + last) & 1 != 0 else -1  # A bit that is set follows the texts.


@compiled(2)
def pages_are_intact(file, size):
    """Whether a file consists of Ogg pages whose checksums are right."""
    place = np.int64(0)
    while place < size:
        length = page_bytes(file + place, size - place)
        if length == 0 or not is_intact(file + place, length):
            return 0
        place += length
    return 1


@inlined
def _three_bytes(source):
    """A sample of 24 bits in the upper part of a 32-bit integer."""
    return np.int32((load_u8(source) | load_u8(source + 1) << 8 | load_u8(source + 2) << 16) << 8)


@inlined
def _shift_to(value, bits, kind):
    """Convert an integer of `bits` bits to the output's type."""
    more = (16 if kind == INT16 else 32) - bits
    return np.int64(value) << more if more >= 0 else np.int64(value) >> -more


@inlined
def _convert_wide(source, count, bits, out, kind):
    """Convert samples of 8, 24 or 32 bits."""
    if kind == FLOAT:
        made = view_f32(out, count)
        for k in range(count):
            if bits == 8:
                made[k] = _F((load_u8(source + k) ^ 0x80) - ((load_u8(source + k) ^ 0x80) >> 7 << 8)) * _F(2.0**-7)
            elif bits == 24:
                made[k] = _F(_three_bytes(source + 3 * k)) * _F(2.0**-31)
            else:
                made[k] = _F(load_i32(source + 4 * k)) * _F(2.0**-31)
        return
    shorts, ints = _view_i16(out, count), view_i32(out, count)
    for k in range(count):
        if bits == 8:
            byte = load_u8(source + k) ^ 0x80
            value = _shift_to(byte - (byte >> 7 << 8), 8, kind)
        elif bits == 24:
            value = _shift_to(_three_bytes(source + 3 * k), 32, kind)
        else:
            value = _shift_to(load_i32(source + 4 * k), 32, kind)
        if kind == INT16:
            shorts[k] = value
        else:
            ints[k] = value


@inlined
def _convert(source, count, bits, out, kind):
    """Convert the integers of a WAV file."""
    if bits != 16:
        _convert_wide(source, count, bits, out, kind)
        return
    stored = _view_i16(source, count)
    if kind == FLOAT:
        made = view_f32(out, count)
        for k in range(count):
            made[k] = _F(stored[k]) * _F(2.0**-15)
    elif kind == INT16:
        copy_bytes(out, source, 2 * count)
    else:
        ints = view_i32(out, count)
        for k in range(count):
            ints[k] = np.int32(stored[k]) << 16


@inlined
def convert_wav(source, count, format, bits, out, kind):
    """Convert `count` numbers of a WAV file. Floats are only converted to FLOAT."""
    if format == PCM:
        _convert(source, count, bits, out, kind)
    elif bits == 32:
        copy_bytes(out, source, 4 * count)
    else:
        made, wide = view_f32(out, count), view_f64(source, count)
        for k in range(count):
            made[k] = _F(wide[k])


@inlined
def _own_scratch(context, thread):
    return load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)


@inlined
def _place(context, sample):
    """The record of a sample, the address of its encoded data, and the address of its output."""
    record = load_i64(context + at.records) + record_at.size * sample
    source = load_i64(load_i64(context + at.inputs) + 8 * sample) + load_i64(record + record_at.data)
    return record, source, load_i64(load_i64(context + at.outputs) + 8 * sample)


@step
def wav_step(context, sample, thread):
    """Decode one file, if it is a WAV file; see ``audio_decoder_tables``. Each format has a step: only formats in use are compiled."""
    record, source, out = _place(context, sample)
    format = load_i64(record + record_at.format)
    if format == PCM or format == REAL:
        count = load_i64(record + record_at.frames) * load_i64(record + record_at.channels)
        convert_wav(source, count, format, load_i64(record + record_at.bits), out, load_i64(context + at.kind))
    return 0


@step
def flac_step(context, sample, thread):
    """Decode one file, if it is a FLAC file."""
    record, source, out = _place(context, sample)
    if load_i64(record + record_at.format) == FLAC:
        failed = decode_flac(source, record, out, load_i64(context + at.kind), _own_scratch(context, thread))
        store_i64(record + record_at.failed, failed)
    return 0


@step
def vorbis_step(context, sample, thread):
    """Decode one file, if it is an Ogg Vorbis file."""
    record, source, out = _place(context, sample)
    if load_i64(record + record_at.format) == VORBIS:
        failed = decode_vorbis(source, record, out, load_i64(context + at.kind), _own_scratch(context, thread))
        store_i64(record + record_at.failed, failed)
    return 0

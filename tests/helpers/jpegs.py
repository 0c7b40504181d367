"""Our own JPEG decoder beside libjpeg-turbo, in memory before guard pages."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from asyncdali.codecs.jpeg import jpeg_kernels as kernels
from asyncdali.codecs.jpeg import jpeg_library, progressive, window_decoding
from asyncdali.codecs.jpeg.jpeg_tables import DECODE_JPEGS, DECODE_WINDOW, JPEG_HEADER, JPEG_WINDOW
from asyncdali.operators.row_feeds import BAND

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Memory of up to `size` bytes. Accesses beyond its end, or on the page before its beginning, end the process."""

    def __init__(self, size: int):
        self.size = -(-size // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, self.size + 2 * _PAGE)
        self._all = np.frombuffer(self._map, np.uint8)
        self._start = self._all.ctypes.data
        for page in (self._start, self._start + _PAGE + self.size):
            if _libc.mprotect(page, _PAGE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def last(self, size: int, align: int = 1) -> np.ndarray:
        """The last `size` bytes before the guard page, aligned downwards."""
        begin = (_PAGE + self.size - size) // align * align
        return self._all[begin : begin + size]


class Decoders:
    """Both decoders, with memory for files, windows and work of up to these sizes."""

    def __init__(self, file_bytes: int = 1 << 20, pixel_bytes: int = 1 << 22, work_bytes: int = 1 << 23):
        self._table = jpeg_library.function_table()
        assert self._table is not None
        self._file, self._pixels, self._work = Guarded(file_bytes), Guarded(pixel_bytes), Guarded(work_bytes)
        self._constants = window_decoding.known_constants()
        self.found = False

    def header(self, data: bytes) -> np.ndarray:
        """The result of the header scan: a JPEG_HEADER."""
        array = np.frombuffer(data or b"\0", np.uint8)
        return kernels.read_headers(np.array([array.ctypes.data]), np.array([len(data)]))[0][0]

    def ours(
        self, data: bytes, place: tuple[int, int, int, int] | None = None, channels: int = 3, bgr: bool = False, room: int | None = None,
        index: int = 0, ring: int = 0,
    ) -> np.ndarray | None:  # fmt: skip
        """The window (x, y, w, h) from our decoder: uint8[h, w, channels]; None if it hands over. `index`: address of an index of block
        positions, or 0; `found` says whether the positions were known. `ring`: rows of a ring that the pixels are taken from, or 0."""
        header = self.header(data)
        width, height, components = header[JPEG_HEADER.span("width", "components")].tolist()
        x, y, w, h = place or (0, 0, width, height)
        file = self._file.last(len(data))
        file[:] = np.frombuffer(data, np.uint8)
        row_bytes = w * channels
        out = self._pixels.last((ring or h) * row_bytes)
        out[:] = 0x5A
        taken = np.empty((h, row_bytes), np.uint8)
        calls = [0]

        def take(state: int, rows: int) -> int:
            for row in range(calls[-1], min(rows, h)):
                taken[row] = out.reshape(ring, row_bytes)[row % ring]
            calls.append(rows)
            return 0

        taking = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(take)
        room = int(window_decoding.room_for(len(data), width)) if room is None else room
        work = self._work.last(room, 64)
        request, _ = DECODE_WINDOW.make(
            data=file, bytes=len(data), out=out, x=x, y=y, w=w, h=h, picture_width=width, picture_height=height,
            picture_components=components, channels=channels, blue_first=bgr, work=work, room=room, constants=self._constants,
            scans=progressive.decode_scans.address, index=index, found=0, take=ctypes.cast(taking, ctypes.c_void_p).value if ring else 0,
            state=0, ring_stop=out.ctypes.data + out.nbytes if ring else 0,
        )  # fmt: skip
        code = window_decoding.decode_window(request.ctypes.data)
        self.found = bool(request[DECODE_WINDOW.word.found])
        if ring:
            assert all(0 <= step <= BAND for step in np.diff(calls)), calls
        if code != 0:
            return None
        return (taken if ring else out).reshape(h, w, channels).copy()

    def turbos(
        self, data: bytes, place: tuple[int, int, int, int] | None = None, channels: int = 3, bgr: bool = False
    ) -> np.ndarray | None:
        """The window decoded by libjpeg-turbo; None if libjpeg-turbo refuses the file."""
        return self.step(data, place, channels, bgr)

    def step(
        self, data: bytes, place: tuple[int, int, int, int] | None = None, channels: int = 3, bgr: bool = False, *, own: bool = False,
        cut: bool = False,
    ) -> np.ndarray | None:  # fmt: skip
        """The window from the decoding step; None if libjpeg-turbo refuses the file.

        own   whether our decoder may decode the file
        cut   whether the window was asked for by an operator that crops
        """
        header = self.header(data)
        width, height, components = header[JPEG_HEADER.span("width", "components")].tolist()
        x, y, w, h = place or (0, 0, width, height)
        array = np.frombuffer(data, np.uint8)
        out = np.full((h, w, channels), 0xA5, np.uint8)
        room = int(window_decoding.room_for(len(data), width)) if own else 0
        size, offset = kernels.scratch_bytes(width * channels, 0, room)
        scratch, text = np.zeros(size + 64, np.uint8), np.zeros(256, np.uint8)
        record, _ = JPEG_WINDOW.make(
            kind=kernels.JPEG, x=x, y=y, w=w, h=h, width=width, height=height, orientation=1, margin=header[JPEG_HEADER.word.margin],
            pixel=channels, components=components,
        )  # fmt: skip
        pointers = np.array([array.ctypes.data, len(data), out.ctypes.data], np.int64)
        at = pointers.ctypes.data
        context = kernels.context_of(
            self._table.ctypes.data, kernels.JpegArrays(at, at + 8, record.ctypes.data, at + 16), color=8 if bgr else 2, turned=offset,
            own=kernels.OwnDecoder(window_decoding.decode_window.address, progressive.decode_scans.address, room) if own else kernels.TURBO,
        )  # fmt: skip
        context[DECODE_JPEGS.word.cut] = cut
        thread = kernels.thread_record(scratch, text)
        return out if kernels.decode_step(context.ctypes.data, 0, thread.ctypes.data) == 0 else None

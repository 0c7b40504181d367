"""Tables of the JPEG decoders: headers, windows, and the distribution of files over a GPU's decoders."""

from __future__ import annotations

from ...compiled.tables import Field, Table

YX = Table("YX", Field("y", "int64", "row, or rows"), Field("x", "int64", "column, or columns"))
"""The anchor or the extent of a window, in pixels."""

_IMAGE = (
    Field("width", "int64", "pixels of a row"),
    Field("height", "int64", "rows"),
    Field("components", "int64", "colour components of the file"),
    Field("orientation", "int64", "EXIF orientation, 1 to 8; of a stored image 0: decoded already, as seen"),
)
STORED_IMAGE = Table("STORED_IMAGE", *_IMAGE)
"""The stored size and layout of an image."""
JPEG_HEADER = Table(
    "JPEG_HEADER",
    Field("found", "int64", "NOT_JPEG, IS_JPEG or UNUSUAL, see ``jpeg_kernels``"),
    *_IMAGE,
    Field("margin", "int64", "columns to decode beyond a window on each side: one MCU, more in progressive files"),
    Field("marker", "int64", "of the frame (SOFn); 0: there is none"),
    Field("scans", "int64", "number of scans"),
    Field("adobe", "int64", "1: the file has an Adobe segment (APP14), so CMYK is stored inverted"),
)
"""The header of a file: a record for each sample. Everything that decoders read from a file's header is here."""

MOST_SIDE = 65500
"""Most rows and columns of a JPEG: libjpeg's JPEG_MAX_DIMENSION. Headers can give up to 65535."""

JPEG_WINDOW = Table(
    "JPEG_WINDOW",
    Field("kind", "int64", "JPEG: encoded; READY: a whole image in final channels and type, decoded before"),
    Field("x", "int64", "first column of the window, in stored coordinates"),
    Field("y", "int64", "first row"),
    Field("w", "int64", "columns"),
    Field("h", "int64", "rows"),
    Field("width", "int64", "columns of the stored image"),
    Field("height", "int64", "rows of the stored image"),
    Field("orientation", "int64", "EXIF orientation, 1 to 8"),
    Field("margin", "int64", "columns to decode beyond the window on each side"),
    Field("pixel", "int64", "bytes of a pixel of the output"),
    Field("components", "int64", "colour components of the file"),
)
"""The window to decode: a record for each sample."""

PLACE_WINDOWS = Table(
    "PLACE_WINDOWS",
    Field("samples", "int64", "samples of the batch"),
    Field("headers", "JPEG_HEADER[samples]", "of the files"),
    Field("images", "STORED_IMAGE[samples]", "the images; 0 (no array): upright images of the sizes in the headers"),
    Field("sizes", "int64[samples]", "bytes of the files; 0 (no array): `own_room` is not wanted"),
    Field("anchors", "[samples, 2]", "of the windows, in the image as seen: y, x; 0 (no array): the windows are whole images"),
    Field("extents", "[samples, 2]", "of the windows, in the image as seen: height, width"),
    Field("narrow", "bool", "anchors and extents are int32, not int64"),
    Field("channels", "int64[samples]", "of the outputs"),
    Field("channel_stride", "int64", "bytes from one sample's channels to the next one's; 0: all have the same"),
    Field("itemsize", "int64", "bytes of an element"),
    Field("windows", "JPEG_WINDOW[samples]", "result"),
    Field("shapes", "HWC[samples]", "result: of the outputs"),
    Field("output_bytes", "int64[samples]", "result: bytes of each output"),
    Field("offsets", "int64[samples]", "result: places of the outputs, one after another, in bytes"),
    Field("widest", "int64", "result: bytes of the widest row to decode"),
    Field("turned", "int64", "result: bytes of the largest window that must be turned"),
    Field("own_room", "int64", "result: most bytes of work memory per thread that our own decoder needs"),
    Field("largest", "int64", "result: bytes of the largest output"),
    Field("total", "int64", "result: bytes of all outputs"),
)
"""Arguments and results of ``jpeg_kernels.place_windows``."""

PLAIN, ELIGIBLE = 1, 2
"""Marks of a scanned file: of the common kind (``jpeg_kernels.is_plain``); a decoder of a GPU can take it."""

FEW_HEADERS = 1024
"""Most headers that are read with the interpreter lock held, at 0.1 us each."""

LIBJPEG = Table(
    "LIBJPEG",
    Field("std_error", "function", "jpeg_std_error"),
    Field("create_decompress", "function", "jpeg_CreateDecompress"),
    Field("mem_src", "function", "jpeg_mem_src"),
    Field("read_header", "function", "jpeg_read_header"),
    Field("start_decompress", "function", "jpeg_start_decompress"),
    Field("crop_scanline", "function", "jpeg_crop_scanline"),
    Field("skip_scanlines", "function", "jpeg_skip_scanlines"),
    Field("read_scanlines", "function", "jpeg_read_scanlines"),
    Field("destroy_decompress", "function", "jpeg_destroy_decompress"),
    Field("on_error", "function", "error_exit, which is ours (``jpeg_kernels.callbacks``)"),
    Field("on_message", "function", "output_message, which is ours"),
)
"""Functions of libjpeg-turbo, and our two callbacks."""

DECODE_JPEGS = Table(
    "DECODE_JPEGS",
    Field("functions", "LIBJPEG", "jpeg_library.function_table"),
    Field("addresses", "addresses", "of the files, or of images decoded before"),
    Field("sizes", "int64[samples]", "bytes of each file"),
    Field("windows", "JPEG_WINDOW[samples]", "windows to decode"),
    Field("targets", "addresses", "of the outputs"),
    Field("lanes", "int64[samples]", "the decoder of each sample; this step skips other lanes than CPU. 0 (no array): it decodes all"),
    Field("color", "int64", "libjpeg's colour space of three channels"),
    Field("fast_dct", "int64", "1: the faster, less exact inverse DCT"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
    Field("turned", "int64", "offset in the step's scratch of the buffer for windows to turn"),
    Field("own", "address", "of our own decoder (DECODE_WINDOW); 0: libjpeg-turbo decodes all files"),
    Field("constants", "address", "of jpeg.window.known_constants(); 0 without our own decoder"),
    Field("own_room", "int64", "bytes of scratch that our own decoder may use"),
    Field("counts", "DECODE_COUNTS", "what is counted; 0: nothing"),
    Field("own_scans", "address", "of jpeg.progressive.decode_scans; 0: libjpeg-turbo decodes progressive files"),
    Field("index", "address", "of jpeg.block_positions.index; 0: no block positions are kept"),
    Field("feed", "FEED", "the operator that takes rows while they are made (row_feeds.py), or 0"),
    Field("cut", "int64", "1: another operator asked for the windows; a file that is truncated below its window is an error"),
)
"""Context of ``jpeg_kernels.decode_step``."""
DECODE_COUNTS = Table(
    "DECODE_COUNTS",
    Field("own", "int64", "JPEGs decoded by asyncdali"),
    Field("turbo", "int64", "JPEGs decoded by libjpeg-turbo"),
    Field("known", "int64", "JPEGs with known block positions"),
    Field("fed", "int64", "JPEGs handed on in rows"),
    Field("cut", "int64", "JPEGs decoded in part for a crop"),
)

DECODE_WINDOW = Table(
    "DECODE_WINDOW",
    Field("data", "address", "of the file; 0: build the constants at `out` for the codes at `constants`"),
    Field("bytes", "int64", "bytes of the file"),
    Field("out", "address", "of the window's pixels, its rows one after another"),
    Field("x", "int64", "first column of the window"),
    Field("y", "int64", "first row"),
    Field("w", "int64", "columns"),
    Field("h", "int64", "rows"),
    Field("picture_width", "int64", "columns of the picture, which the file must have"),
    Field("picture_height", "int64", "rows of the picture"),
    Field("picture_components", "int64", "colour components of the file"),
    Field("channels", "int64", "1 or 3"),
    Field("blue_first", "int64", "1: blue, green, red"),
    Field("work", "address", "of memory to work in, 64-byte aligned"),
    Field("room", "int64", "bytes of that memory"),
    Field("constants", "address", "of jpeg.window.known_constants()"),
    Field("scans", "address", "of jpeg.progressive.decode_scans; 0: progressive files are handed over"),
    Field("index", "address", "of jpeg.block_positions.index, or 0"),
    Field("found", "int64", "result: 1 if block positions were known"),
    Field("take", "address", "of a function take(state, rows), called after each row of MCUs with the rows that are made; or 0"),
    Field("state", "address", "given to that function"),
    Field("ring_stop", "address", "where rows begin at `out` again; 0: they all follow one another"),
)
"""A request to our own decoder (``jpeg.window.decode_window``)."""

CPU, ENGINES, HYBRID, KEPT = range(4)
"""Lanes: the decoder that takes a sample of a batch on a GPU. KEPT: no decoder, because the cache of decoded pictures has the sample."""

JPEG_SPLIT = Table(
    "JPEG_SPLIT",
    Field("samples", "int64", "samples of the batch"),
    Field("addresses", "addresses", "of the files"),
    Field("sizes", "int64[samples]", "bytes of each file"),
    Field("headers", "JPEG_HEADER[samples]", "of the files"),
    Field("marks", "int64[samples]", "ELIGIBLE where a decoder of a GPU can take the file; written by ``find_eligible``"),
    Field("windows", "JPEG_WINDOW[samples]", "windows to decode"),
    Field("shapes", "HWC[samples]", "of the outputs"),
    Field("outputs", "addresses", "of the output's samples"),
    Field("lanes", "int64[samples]", "the decoder of each sample; written by ``share_out``"),
    Field("targets", "int64[samples]", "where the CPU puts its outputs; written by ``place_rest`` as offsets in memory to be allocated"),
    Field("keys", "int64[samples]", "memory to sort in"),
    Field("hybrid", "int64", "how many files the multiprocessors get"),
    Field("least", "int64", "how many they get at least, if any"),
    Field("part", "float64", "the engines' part of the other files"),
    Field("taken", "int64", "result of ``share_out``: number of files in a lane", ("engines", "hybrid")),
    Field("left", "int64", "result of ``place_rest``: number of samples of the CPU"),
    Field("whole_bytes", "int64", "result of ``describe_files``: bytes of memory for whole images; 0: all go to the outputs"),
    Field("most_rows", "int64", "result of ``find_moves``: most rows of a window that moves"),
    Field("most_row_bytes", "int64", "result of ``find_moves``: most bytes of a row of such a window"),
)
"""A batch of JPEGs that the decoders of a GPU and the CPU share (``image_decoder_kernels``)."""

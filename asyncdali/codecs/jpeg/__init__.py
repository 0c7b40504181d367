"""Our own JPEG decoder: Huffman-coded pictures of 8 bits, in compiled code, bit for bit as libjpeg-turbo decodes them.

If the decoder meets anything unexpected in a picture, libjpeg-turbo decodes the picture, or reports the error.

The path of a picture (``window_decoding.py`` goes through it one row of blocks at a time)::

    file --> markers.py --> bit_reader.py --> huffman_decoding.py --> inverse_dct.py --> colour.py --> pixels
             tables:                          progressive files:
             huffman.py                       progressive.py

markers.py               the segments before the entropy-coded data, checked
huffman.py               look-up tables that give up to two coefficients at a time
bit_reader.py            entropy-coded bytes without stuffing, and the reservoir of bits
huffman_decoding.py      Huffman codes to coefficients
inverse_dct.py           coefficients to samples: the accurate integer inverse DCT, four blocks at a time
colour.py                samples to pixels: fancy upsampling and colour conversion, 32 pixels at a time
window_decoding.py       one window of one picture, from file to pixels
progressive.py           the scans of progressive files, whose coefficients have separate memory (progressive_memory.py)
block_positions.py       block positions at which decoding starts in later epochs
restart_segments.py      entropy-coded segments between restart markers
work_area.py, fields.py  memory layout: the offset of each field

    exif_orientation.py              The orientation in EXIF data
    forward_dct.py                   Pixels to quantised coefficients, as libjpeg writes them
    jpeg_kernels.py, jpeg_tables.py  JPEG headers and cropped JPEG decoding in compiled code
    jpeg_library.py                  Selection of the JPEG decoder
    jpeg_soundness_kernels.py        Check that the tables and headers of a JPEG conform to the standard (ITU-T T.81)

May import `compiled` and the headers of images (`codecs.image_headers`).
"""

"""Our own JPEG decoder: Huffman-coded pictures of 8 bits, in compiled code, bit for bit as libjpeg-turbo decodes them.

A picture in which the decoder meets anything unexpected is handed over to libjpeg-turbo, which then decodes it or says what is wrong.

markers.py   the segments before the entropy-coded data, checked
huffman.py   look-up tables that give up to two coefficients at a time
bits.py      entropy-coded bytes without stuffing, and the reservoir of bits
entropy.py   Huffman codes to coefficients
transform.py coefficients to samples: the accurate integer inverse DCT, four blocks at a time
colour.py    samples to pixels: fancy upsampling and colour conversion, 32 pixels at a time
window.py    one window of one picture, from file to pixels
progressive.py  the scans of progressive files, whose coefficients lie in memory of their own (kept.py)
positions.py  block positions that later epochs begin at
segments.py  entropy-coded segments between restart markers
work_area.py, fields.py  what lies where in memory

May import `compiled` and the headers of images (`codecs.image_headers`).
"""

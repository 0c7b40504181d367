"""Our own PNG decoder, in compiled code: files of 8 bits per channel without palette and interlacing. OpenCV decodes the others.

inflate.py      inflates the data
png_files.py    the chunks of a file, from Python; the rule that all decoders of PNG follow
png_kernels.py  headers, and the filters of rows

    png_crc_kernels.py  CRC-32 of PNG chunks (ISO 3309; PNG specification, third edition, annex D), eight bytes per step
    png_tables.py       Tables of the PNG decoder

May import what `codecs` may.
"""

"""Encoded data, for readers and decoders: headers, formats, and decoding without operators.

Images (image_headers, image_decoding, jpeg/, png/; TIFF, JPEG2000 and PNM here), sound (audio/), videos (video/) and NumPy files
(npy_headers).

    compressed.py                         Names the compression of data that should not be compressed
    image_decoding.py                     Whole-image decoding from Python for what the compiled JPEG path does not do: other formats, other
                                          element types, conversions; turning pictures upright
    image_headers.py                      Headers of encoded images: format, size, orientation (of JPEGs: jpeg/exif_orientation.py)
    jpeg2000.py                           Headers of JPEG2000 files, and which library decodes them
    npy_header_kernels.py, npy_header_tables.py
                                          Headers of NumPy files, parsed without the interpreter
    npy_headers.py                        Headers of NumPy files: element types, sizes, strides
    pnm.py                                Netpbm pictures: PBM, PGM and PPM, in binary and as text (P1 to P6), without a library
    tiff_files.py                         The directory of a TIFF file (TIFF 6.0 and BigTIFF)
    tiff_kernels.py                       The horizontal predictor of TIFF
    tiff_pixels.py                        Pixels of a TIFF file

May import `batch`, `compiled`, `types` and `device.launch`; no reader and no operator.
"""

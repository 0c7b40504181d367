"""Readers of one file per sample: listing, names and labels, reading a batch of whole files.

file.py, fits.py, nemo_asr.py and file_read.py are the operators; listed.py and contents.py what readers of other formats derive from.

    batch_files.py      Files of a batch for readers that open them from Python
    entries.py          File names that come from data
    file_kernels.py, file_tables.py
                        Reads whole files without the interpreter
    file_read_kernels.py
                        Steps of ``io.file.read``: its paths are data
    file_table.py       Finds the samples of file-based readers: directories with one class each, and lists of files
    fits_files.py       FITS files: headers of 80-character cards, big-endian arrays, in blocks of 2880 bytes (FITS standard 4.0)
    listing.py          The files of many directories as one compact table
    listing_kernels.py, listing_tables.py
                        Lists directories without the interpreter: filters and sorts names, and joins them to paths
    nemo_asr_kernels.py, nemo_asr_tables.py
                        Reads parts of WAV files without the interpreter
    reserved_memory.py  Memory that is reserved for the files of a batch before their sizes are known, so each file is read as soon as it is
                        open
    table_reader.py     Base class of readers whose samples are the files of a table

May import `readers.base` and `readers.remote`, and what `readers` may.
"""

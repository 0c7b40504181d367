"""Readers of one file per sample: listing, names and labels, reading a batch of whole files.

file.py, fits.py, nemo_asr.py and file_read.py are the operators; listed.py and contents.py what readers of other formats derive from.
May import `readers.base` and `readers.remote`, and what `readers` may.
"""

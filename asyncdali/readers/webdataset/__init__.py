"""readers.webdataset: tar archives, their index files, and samples made of several members.

    tar.py               The regular files of a tar archive, and their grouping into samples by WebDataset's rules
    webdataset.py        readers.webdataset: samples from tar archives, several files per sample
    webdataset_index.py  Index files of WebDataset archives
    webdataset_kernels.py, webdataset_tables.py
                         Scans the headers of a tar archive: v7, ustar, GNU long names, pax attributes

May import `readers.containers`, `readers.base`, and what `readers` may.
"""

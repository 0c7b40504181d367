"""readers.webdataset: tar archives, their index files, and samples made of several members.

    webdataset_kernels.py, webdataset_tables.py
                                   Scans the headers of a tar archive: v7, ustar, GNU long names, pax attributes
    webdataset_index.py            Index files of WebDataset archives

May import `readers.containers`, `readers.base`, and what `readers` may.
"""

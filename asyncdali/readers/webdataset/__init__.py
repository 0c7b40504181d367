"""readers.webdataset: tar archives, their index files, and samples made of several members.

May import `readers.containers`, `readers.base`, and what `readers` may.
"""

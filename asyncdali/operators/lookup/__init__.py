"""Integers as keys: lookup_table, one_hot.

    lookup_table.py          lookup_table: map integers to values
    lookup_table_kernels.py  Compiled steps of lookup_table
    one_hot.py               one_hot: one-hot encoding of integers
    one_hot_kernels.py       Compiled step of one_hot

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

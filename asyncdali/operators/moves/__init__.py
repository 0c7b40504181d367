"""Copies of elements between places in memory: pieces with any strides, and whole samples. All families of operators use them.

    copy.py, copy_kernels.py   Copy the data to separate memory
    moving.py                  Base of operators that move elements without changing them
    pieces.py, pieces_kernels.py, pieces_tables.py
                               Pieces of inputs and their places in the output, for a whole batch; the compiled steps that copy them
    pieces_merging_kernels.py  Planning of moves on a GPU: axes adjacent in memory are merged once per sample, not once per element

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

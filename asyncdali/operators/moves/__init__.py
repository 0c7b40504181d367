"""Kernels that move elements between strided places, and copies of whole samples. All families of operators use them.

    copy.py, copy_kernels.py  Copy the data to separate memory
    move_kernels.py           Planning of moves on a GPU: axes adjacent in memory are merged once per sample, not once per element
    moving.py                 Base of operators that move elements without changing them
    strided.py                Records of the steps that move elements (``strided_kernels``): pieces of inputs and their targets, for a whole
                              batch
    strided_kernels.py, strided_tables.py
                              Compiled steps that move elements

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

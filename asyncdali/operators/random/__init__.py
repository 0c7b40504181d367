"""Operators that draw: numbers, choices, windows, noise. Their random streams are in `sampling`.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

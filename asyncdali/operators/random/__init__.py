"""Operators that draw: numbers, choices, windows, noise. The streams that they draw from are in `sampling`.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

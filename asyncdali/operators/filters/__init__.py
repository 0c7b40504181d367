"""Filters of images and volumes: every output pixel is computed from a neighbourhood.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

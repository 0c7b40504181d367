"""Encoded sound: WAV and FLAC in compiled code, other formats through soundfile; and sound at another sampling rate.

May import what `codecs` may.
"""

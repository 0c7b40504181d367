"""Encoded sound. WAV and FLAC are decoded in compiled code, other formats through soundfile. Sound is also resampled here.

May import what `codecs` may.
"""

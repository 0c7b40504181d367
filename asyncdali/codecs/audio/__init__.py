"""Encoded sound. WAV, FLAC and Ogg Vorbis are decoded by our own code, other formats through soundfile.

Sound is also resampled here.

May import what `codecs` may.
"""

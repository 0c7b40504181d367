"""Compiled steps of ``audio_resample``, which decoders of sound share."""

from __future__ import annotations

from ...codecs.audio.resampling_kernels import macros_of, resample_step

__all__ = ["macros_of", "resample_step"]

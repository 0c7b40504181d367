"""Encoded sound. WAV, FLAC and Ogg Vorbis are decoded by our own code, other formats through soundfile.

Sound is also resampled here.

    audio_formats.py                    Decode encoded sound to arrays
    checksum_kernels.py                 Checksums of FLAC frames and Ogg pages
    compiled_sounds.py                  The sounds that compiled code decodes (``audio_decoder_kernels``)
    flac_kernels.py                     Decode FLAC frames of 8, 16 and 24 bits to samples (RFC 9639)
    ogg_kernels.py                      Ogg files with one Vorbis stream (RFC 3533; Vorbis I specification, appendix A)
    resampling.py, resampling_kernels.py, resampling_tables.py
                                        Sound resampling: windows, output lengths, and the step for a batch
    audio_decoder_kernels.py, audio_decoder_tables.py
                                        Compiled decoding of sound
    vorbis_kernels.py, vorbis_tables.py
                                        Decode Vorbis packets to samples (Vorbis I specification)
    vorbis_setup.py                     The headers of a Vorbis stream
    vorbis_transform.py                 The inverse transform of Vorbis blocks, and the sums of overlapping blocks (Vorbis I
                                        specification, section 1.3.2)
    wav_headers.py                      Rules for the headers of WAV files

May import what `codecs` may.
"""

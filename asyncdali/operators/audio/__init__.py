"""Audio: signals, spectra and features computed from them.

    audio_resample.py, audio_resample_kernels.py
                                          Resample sound to another sampling rate or to another length
    spectrogram_dense_fourier_kernels.py  Direct Fourier transforms of real numbers, in float64: each frequency is a sum over all numbers
    spectrogram_fourier.py, spectrogram_fourier_tables.py
                                          Tables of discrete Fourier transforms of real numbers, for ``spectrogram_kernels`` and its CUDA
                                          twin
    to_decibels_logarithm_kernels.py      Decimal logarithms of float64, several at a time
    mel_filter_bank.py, mel_filter_bank_kernels.py
                                          Filters along the frequency axis; and the base of operators that multiply by a matrix along an
                                          axis
    mfcc.py, mfcc_kernels.py              Cosine transforms along the frequency axis
    nonsilent_region.py, nonsilent_region_kernels.py, nonsilent_region_tables.py
                                          Where a recording is louder than a threshold
    preemphasis_filter.py                 Each sample less a part of the one before
    spectrogram_fourier_kernels.py        Fourier transforms of real numbers, several at a time
    signal_types.py                       Element types of signals
    spectrogram.py, spectrogram_kernels.py
                                          spectrogram and power_spectrum
    to_decibels.py, to_decibels_kernels.py, to_decibels_tables.py
                                          Powers or magnitudes on a logarithmic scale

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

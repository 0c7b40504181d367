"""Audio: signals, spectra and features computed from them.

    audio_resample.py                   Resample sound to another sampling rate or to another length
    axis_matrix_kernels.py              A matrix applied along one axis: mel filters, cosine transforms
    dense_fourier_kernels.py            Direct Fourier transforms of real numbers, in float64: each frequency is a sum over all numbers
    fourier.py, fourier_kernels.py, fourier_tables.py
                                        Tables of discrete Fourier transforms of real numbers, for ``fourier_kernels`` and its CUDA twin
    logarithm_kernels.py                Decimal logarithms of float64, several at a time
    mel_filter_bank.py                  Filters along the frequency axis; and the base of operators that multiply by a matrix along an
                                        axis
    mfcc.py                             Cosine transforms along the frequency axis
    nonsilent_region.py                 Where a recording is louder than a threshold
    preemphasis_filter.py               Each sample less a part of the one before
    real_fourier_kernels.py             Fourier transforms of real numbers, several at a time
    signal_kernels.py, signal_tables.py
                                        Compiled steps of to_decibels, nonsilent_region
    signal_types.py                     Element types of signals
    spectrum.py                         spectrogram and power_spectrum
    to_decibels.py                      Powers or magnitudes on a logarithmic scale

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

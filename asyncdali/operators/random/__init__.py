"""Operators that draw: numbers, choices, windows, noise. Their random streams are in `sampling`.

    beta.py, beta_kernels.py  random.beta
    choice.py, choice_kernels.py
                              random.choice: elements of a list, or numbers below a bound, picked at random
    coin_flip.py              random.coin_flip
    jitter.py, jitter_kernels.py
                              Every pixel is copied from a random neighbour
    noise.py                  noise.gaussian, noise.salt_and_pepper, noise.shot
    noise_kernels.py          Compiled steps of the noise operators
    normal.py                 random.normal
    random.py                 Base classes of operators that draw: the random stream, its position, and the shape of the output
    random_crop_generator.py  Random crop windows, as random_resized_crop draws them
    roi_random_crop.py, roi_random_crop_kernels.py
                              Random crop windows that cover a region of interest
    uniform.py                random.uniform

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""

"""Audio: signals, spectra and what is made of them."""

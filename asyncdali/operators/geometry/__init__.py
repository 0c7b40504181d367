"""What moves pixels: sizes, windows, rotations, and matrices for them."""

// Positions outside of the input, for crop and slice.
#include "kernel.cuh"

// Map an index outside the input to 0..extent-1 (`border` as numbered in crop_rules.py). The result -1 stands for the fill value.
DEVICE int64 inside(int64 index, int64 extent, int64 border) {
    if (index >= 0 && index < extent) return index;
    if (border == 0 || extent <= 0) return -1;
    if (border == 1) return index < 0 ? 0 : extent - 1;
    const int64 period = border == 2 ? extent : larger(2 * extent - (border == 4 ? 2 : 0), (int64)1);
    index %= period;
    if (index < 0) index += period;
    if (border == 2 || index < extent) return index;
    return period - index - (border == 4 ? 0 : 1);
}

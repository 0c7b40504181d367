// Replacement of pixels outside the picture.
#include "kernel.cuh"

// Reflect `index` about the border pixels until it lies in 0..extent-1.
DEVICE int64 reflected(int64 index, int64 extent) {
    if (index >= 0 && index < extent) return index;
    if (extent == 1) return 0;
    const int64 period = 2 * (extent - 1);
    index %= period;
    if (index < 0) index += period;
    return index >= extent ? period - index : index;
}

// The pixel that replaces pixel `index`, or -1 for the fill value. `border`: 0 reflect_101, 1 reflect_1001, 2 wrap, 3 clamp, 4 constant.
DEVICE int64 inside(int64 index, int64 extent, int64 border) {
    if (index >= 0 && index < extent) return index;
    if (border == 4) return -1;
    if (border == 3) return index < 0 ? 0 : extent - 1;
    if (border == 0) return reflected(index, extent);
    const int64 period = border == 2 ? extent : 2 * extent;
    index %= period;
    if (index < 0) index += period;
    return index < extent ? index : period - 1 - index;
}

// Which pixel stands for one outside.
#include "kernel.cuh"

// `index` reflected into 0..extent-1 about the border pixels, however far outside.
DEVICE int64 reflected(int64 index, int64 extent) {
    if (index >= 0 && index < extent) return index;
    if (extent == 1) return 0;
    const int64 period = 2 * (extent - 1);
    index %= period;
    if (index < 0) index += period;
    return index >= extent ? period - index : index;
}

// crop: copy a window, with values outside the input and, on demand, another element type. The table is that of crop_kernels.py, then
// 5 samples. Macros: IN, OUT element types. Values are converted as in slices.
#include "kernel.cuh"

// The index in 0..extent-1 that stands for `index` beyond the input; -1 for none.
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

KERNEL crop(const int64 *context) {
    const OUT *fills = array<OUT>(context, 3);
    const int64 border = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const int64 *r = array<int64>(context, 2) + 27 * sample;
        const int64 source = address(context, 0, sample), out = address(context, 1, sample);
        FOR_ITEMS(i, r[20] * r[21] * r[22] * r[23]) {
            int64 rest = i;
            const int64 x = take(rest, r[23]), y = take(rest, r[22]), z = take(rest, r[21]), f = rest;
            const int64 from_x = inside(x + r[18], r[13], border), from_y = inside(y + r[17], r[12], border);
            const int64 from_z = inside(z + r[16], r[11], border), from_f = inside(f + r[15], r[10], border);
            const int64 to = out + f * r[5] + z * r[6] + y * r[7] + x * r[8];
            const int64 from = source + from_f * r[0] + from_z * r[1] + from_y * r[2] + from_x * r[3];
            const bool found = from_x >= 0 && from_y >= 0 && from_z >= 0 && from_f >= 0;
            for (int64 c = 0; c < r[24]; ++c) {
                *at<OUT>(to + c * r[9]) = found ? sliced<OUT>(*at<const IN>(from + c * r[4])) : fills[c];
            }
        }
    }
}

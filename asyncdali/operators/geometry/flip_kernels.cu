// flip: rows, planes and pixels in reverse order; any element type. The table is that of flip_kernels.py, then 3 samples.
#include "kernel.cuh"

KERNEL flip(const int64 *context) {
    FOR_SAMPLES(sample, context[3]) {
        const int64 *r = array<int64>(context, 2) + 8 * sample;
        const uint8 *source = at<const uint8>(address(context, 0, sample));
        uint8 *out = at<uint8>(address(context, 1, sample));
        const int64 pixel = r[4];
        FOR_ITEMS(i, r[0] * r[1] * r[2] * r[3]) {
            int64 rest = i;
            const int64 x = take(rest, r[3]), y = take(rest, r[2]), z = take(rest, r[1]), outer = rest;
            const int64 from_x = r[7] ? r[3] - 1 - x : x, from_y = r[6] ? r[2] - 1 - y : y, from_z = r[5] ? r[1] - 1 - z : z;
            const int64 from = (((outer * r[1] + from_z) * r[2] + from_y) * r[3] + from_x) * pixel;
            if (pixel % 4 == 0) {
                for (int64 k = 0; k < pixel; k += 4) *at<uint32>((int64)(out + i * pixel + k)) = *at<const uint32>((int64)(source + from + k));
            } else {
                for (int64 k = 0; k < pixel; ++k) out[i * pixel + k] = source[from + k];
            }
        }
    }
}

// crop_mirror_normalize: window, mirror, (x - mean) * multiplier, type and layout. The table is that of normalize_kernels.py, then 7 samples.
// Macros: IN, OUT element types.
#include "kernel.cuh"

KERNEL crop_mirror_normalize(const int64 *context) {
    const int64 per_row = context[6];
    const OUT *fills = array<OUT>(context, 5);
    FOR_SAMPLES(sample, context[7]) {
        const int64 *r = array<int64>(context, 2) + 27 * sample;
        const int64 source = address(context, 0, sample), out = address(context, 1, sample);
        const float32 *mean = array<float32>(context, 3) + per_row * r[26];
        const float32 *factor = array<float32>(context, 4) + per_row * r[26];
        const int64 width = r[23], channels = r[14];
        FOR_ITEMS(i, r[20] * r[21] * r[22] * width) {
            int64 rest = i;
            const int64 x = take(rest, width), y = take(rest, r[22]), z = take(rest, r[21]), f = rest;
            const int64 from_x = (r[25] ? width - 1 - x : x) + r[18];
            const int64 from_y = y + r[17], from_z = z + r[16], from_f = f + r[15];
            const int64 to = out + f * r[5] + z * r[6] + y * r[7] + x * r[8];
            const bool inside = from_x >= 0 && from_x < r[13] && from_y >= 0 && from_y < r[12] && from_z >= 0 && from_z < r[11] &&
                                from_f >= 0 && from_f < r[10];
            const int64 pixel = source + from_f * r[0] + from_z * r[1] + from_y * r[2] + from_x * r[3];
            for (int64 c = 0; c < r[24]; ++c) {
                OUT value = fills[c];
                if (inside && c < channels) {
                    value = convert<OUT>(((float32)value_of(*at<const IN>(pixel + c * r[4])) - mean[c]) * factor[c]);
                }
                *at<OUT>(to + c * r[9]) = value;
            }
        }
    }
}

// flip: rows, planes and pixels in reverse order; any element type.
#include "kernel.cuh"
#include "flip_tables.py"

KERNEL flip(const int64 *context) {
    FOR_SAMPLES(sample, context[FLIP_SAMPLES]) {
        const int64 *r = array<int64>(context, FLIP_RECORDS) + FLIP_RECORD_WORDS * sample;
        const uint8 *source = at<const uint8>(address(context, FLIP_INPUTS, sample));
        uint8 *out = at<uint8>(address(context, FLIP_OUTPUTS, sample));
        const int64 pixel = r[FLIP_RECORD_PIXEL];
        FOR_ITEMS(i, r[FLIP_RECORD_OUTER] * r[FLIP_RECORD_DEPTH] * r[FLIP_RECORD_HEIGHT] * r[FLIP_RECORD_WIDTH]) {
            int64 rest = i;
            const int64 x = take(rest, r[FLIP_RECORD_WIDTH]), y = take(rest, r[FLIP_RECORD_HEIGHT]), z = take(rest, r[FLIP_RECORD_DEPTH]), outer = rest;
            const int64 from_x = r[FLIP_RECORD_HORIZONTAL] ? r[FLIP_RECORD_WIDTH] - 1 - x : x, from_y = r[FLIP_RECORD_VERTICAL] ? r[FLIP_RECORD_HEIGHT] - 1 - y : y, from_z = r[FLIP_RECORD_DEPTHWISE] ? r[FLIP_RECORD_DEPTH] - 1 - z : z;
            const int64 from = (((outer * r[FLIP_RECORD_DEPTH] + from_z) * r[FLIP_RECORD_HEIGHT] + from_y) * r[FLIP_RECORD_WIDTH] + from_x) * pixel;
            if (pixel % 4 == 0) {
                for (int64 k = 0; k < pixel; k += 4) *at<uint32>((int64)(out + i * pixel + k)) = *at<const uint32>((int64)(source + from + k));
            } else {
                for (int64 k = 0; k < pixel; ++k) out[i * pixel + k] = source[from + k];
            }
        }
    }
}

// crop: copy a window, write fill values outside the input, and optionally convert the element type with `sliced`.
// Macros: IN, OUT element types.
#include "inside.cuh"
#include "crop_tables.py"

KERNEL crop(const int64 *context) {
    const OUT *fills = array<OUT>(context, CROP_FILLS);
    const int64 border = context[CROP_BORDER];
    FOR_SAMPLES(sample, context[CROP_SAMPLES]) {
        const int64 *r = array<int64>(context, CROP_RECORDS) + WINDOW_WORDS * sample;
        const int64 source = address(context, CROP_INPUTS, sample), out = address(context, CROP_OUTPUTS, sample);
        FOR_ITEMS(i, r[WINDOW_OUT_EXTENT_F] * r[WINDOW_OUT_EXTENT_D] * r[WINDOW_OUT_EXTENT_H] * r[WINDOW_OUT_EXTENT_W]) {
            int64 rest = i;
            const int64 x = take(rest, r[WINDOW_OUT_EXTENT_W]), y = take(rest, r[WINDOW_OUT_EXTENT_H]), z = take(rest, r[WINDOW_OUT_EXTENT_D]), f = rest;
            const int64 from_x = inside(x + r[WINDOW_ANCHOR_W], r[WINDOW_IN_EXTENT_W], border), from_y = inside(y + r[WINDOW_ANCHOR_H], r[WINDOW_IN_EXTENT_H], border);
            const int64 from_z = inside(z + r[WINDOW_ANCHOR_D], r[WINDOW_IN_EXTENT_D], border), from_f = inside(f + r[WINDOW_ANCHOR_F], r[WINDOW_IN_EXTENT_F], border);
            const int64 to = out + f * r[WINDOW_OUT_STRIDE_F] + z * r[WINDOW_OUT_STRIDE_D] + y * r[WINDOW_OUT_STRIDE_H] + x * r[WINDOW_OUT_STRIDE_W];
            const int64 from = source + from_f * r[WINDOW_IN_STRIDE_F] + from_z * r[WINDOW_IN_STRIDE_D] + from_y * r[WINDOW_IN_STRIDE_H] + from_x * r[WINDOW_IN_STRIDE_W];
            const bool found = from_x >= 0 && from_y >= 0 && from_z >= 0 && from_f >= 0;
            for (int64 c = 0; c < r[WINDOW_OUT_EXTENT_C]; ++c) {
                *at<OUT>(to + c * r[WINDOW_OUT_STRIDE_C]) = found ? sliced<OUT>(*at<const IN>(from + c * r[WINDOW_IN_STRIDE_C])) : fills[c];
            }
        }
    }
}

// crop_mirror_normalize: window, mirror, (x - mean) * multiplier, type and layout. The table is that of normalize_kernels.py, then 7 samples,
// 8 the table of resize_kernels.cu if the input is resized here. Macros: IN, OUT element types; RESIZED: the input is a picture that is resized
// where it is read, from elements of RESIZED_IN with CHANNELS.
#include "kernel.cuh"
#if RESIZED
#include "resize.cuh"
#endif

KERNEL crop_mirror_normalize(const int64 *context) {
    const int64 per_row = context[6];
    const OUT *fills = array<OUT>(context, 5);
    FOR_SAMPLES(sample, context[7]) {
        const int64 *r = array<int64>(context, 2) + 27 * sample;
        const float32 *mean = array<float32>(context, 3) + per_row * r[26];
        const float32 *factor = array<float32>(context, 4) + per_row * r[26];
        const int32 width = (int32)r[23], channels = (int32)r[14], out_channels = (int32)r[24], mirror = (int32)r[25];
        const int32 left = (int32)r[18], in_width = (int32)r[13], lanes = lanes_of(width);
        const int64 out_step = r[8], out_plane = r[9];
#if !RESIZED
        const int64 in_step = r[3], in_plane = r[4];
#endif
        FOR_ROWS(row, r[20] * r[21] * r[22], lanes) {
            int64 rest = row;
            const int64 y = take(rest, r[22]), z = take(rest, r[21]), f = rest;
            const int64 from_y = y + r[17], from_z = z + r[16], from_f = f + r[15];
            const int64 to = address(context, 1, sample) + f * r[5] + z * r[6] + y * r[7];
            const bool inside = from_y >= 0 && from_y < r[12] && from_z >= 0 && from_z < r[11] && from_f >= 0 && from_f < r[10];
#if RESIZED
            const ResizedRow<RESIZED_IN> line(context + 8, sample, from_f * r[11] + from_z, inside ? (int32)from_y : 0);
#else
            const int64 line = address(context, 0, sample) + from_f * r[0] + from_z * r[1] + from_y * r[2];
#endif
            FOR_COLUMNS(x, width, lanes) {
                const int32 from_x = (mirror ? width - 1 - x : x) + left;
                const bool found = inside && from_x >= 0 && from_x < in_width;
                const int64 place = to + x * out_step;
#if RESIZED
                float32 total[GROUP];
                if (found) line.pixel(from_x, 0, GROUP, total);
                for (int32 c = 0; c < GROUP; ++c) {
                    const float32 value = found ? real(stored<IN>(total[c])) : 0;
                    *at<OUT>(place + c * out_plane) = found ? convert<OUT>((value - mean[c]) * factor[c]) : fills[c];
                }
                for (int32 c = GROUP; c < out_channels; ++c) *at<OUT>(place + c * out_plane) = fills[c];
#else
                for (int32 c = 0; c < out_channels; ++c) {
                    OUT value = fills[c];
                    if (found && c < channels) {
                        const IN element = *at<const IN>(line + from_x * in_step + c * in_plane);
                        value = convert<OUT>(((float32)value_of(element) - mean[c]) * factor[c]);
                    }
                    *at<OUT>(place + c * out_plane) = value;
                }
#endif
            }
        }
    }
}

// filter: correlation with a filter of each sample's own; sums in the order of the taps, one rounding each (filter_kernels.py).
// Macros: IN, OUT element types.
// Table: 0 input addresses, 1 filter addresses (float32), 2 addresses of fill values or 0, 3 output addresses, 4 records int64[samples, 14]
// (planes, depth, height, width, channels, output depth, height, width, filter depth, height, width, anchor depth, height, width), 5 border,
// 6 samples.
#include "borders.cuh"

KERNEL correlate(const int64 *context) {
    const int64 border = context[5];
    FOR_SAMPLES(sample, context[6]) {
        const int64 *r = array<int64>(context, 4) + 14 * sample;
        const int64 channels = r[4];
        const IN *source = at<const IN>(address(context, 0, sample));
        const float32 *weights = at<const float32>(address(context, 1, sample));
        OUT *out = at<OUT>(address(context, 3, sample));
        const float32 fill = context[2] ? real(value_of(*at<const IN>(address(context, 2, sample)))) : 0;
        FOR_ITEMS(i, r[0] * r[5] * r[6] * r[7] * channels) {
            int64 rest = i;
            const int64 channel = take(rest, channels), x = take(rest, r[7]), y = take(rest, r[6]), z = take(rest, r[5]), plane = rest;
            float32 total = 0;
            int64 tap = 0;
            for (int64 dz = 0; dz < r[8]; ++dz) {
                const int64 from_z = inside(z + dz - r[11], r[1], border);
                for (int64 dy = 0; dy < r[9]; ++dy) {
                    const int64 from_y = inside(y + dy - r[12], r[2], border);
                    const IN *line = source + ((plane * r[1] + from_z) * r[2] + from_y) * r[3] * channels + channel;
                    for (int64 dx = 0; dx < r[10]; ++dx, ++tap) {
                        const int64 from_x = inside(x + dx - r[13], r[3], border);
                        const bool known = from_z >= 0 && from_y >= 0 && from_x >= 0;
                        const float32 part = weights[tap] * (known ? real(value_of(line[from_x * channels])) : fill);
                        total = tap ? total + part : part;
                    }
                }
            }
            out[i] = convert<OUT>(total);
        }
    }
}

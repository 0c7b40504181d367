// filter: correlate each sample with its own filter. Products are added in the order of the taps; each addition rounds (filter_kernels.py).
// Macros: IN, OUT element types.
#include "borders.cuh"
#include "filter.py"

KERNEL correlate(const int64 *context) {
    const int64 border = context[CORRELATE_BORDER];
    FOR_SAMPLES(sample, context[CORRELATE_SAMPLES]) {
        const int64 *r = array<int64>(context, CORRELATE_RECORDS) + CORRELATE_RECORD_WORDS * sample;
        const int64 channels = r[CORRELATE_RECORD_CHANNELS];
        const IN *source = at<const IN>(address(context, CORRELATE_INPUTS, sample));
        const float32 *weights = at<const float32>(address(context, CORRELATE_FILTERS, sample));
        OUT *out = at<OUT>(address(context, CORRELATE_OUTPUTS, sample));
        const float32 fill = context[CORRELATE_FILLS] ? real(value_of(*at<const IN>(address(context, CORRELATE_FILLS, sample)))) : 0;
        FOR_ITEMS(i, r[CORRELATE_RECORD_PLANES] * r[CORRELATE_RECORD_OUT_DEPTH] * r[CORRELATE_RECORD_OUT_HEIGHT] * r[CORRELATE_RECORD_OUT_WIDTH] * channels) {
            int64 rest = i;
            const int64 channel = take(rest, channels), x = take(rest, r[CORRELATE_RECORD_OUT_WIDTH]), y = take(rest, r[CORRELATE_RECORD_OUT_HEIGHT]), z = take(rest, r[CORRELATE_RECORD_OUT_DEPTH]), plane = rest;
            float32 total = 0;
            int64 tap = 0;
            for (int64 dz = 0; dz < r[CORRELATE_RECORD_FILTER_DEPTH]; ++dz) {
                const int64 from_z = inside(z + dz - r[CORRELATE_RECORD_ANCHOR_DEPTH], r[CORRELATE_RECORD_IN_DEPTH], border);
                for (int64 dy = 0; dy < r[CORRELATE_RECORD_FILTER_HEIGHT]; ++dy) {
                    const int64 from_y = inside(y + dy - r[CORRELATE_RECORD_ANCHOR_HEIGHT], r[CORRELATE_RECORD_IN_HEIGHT], border);
                    const IN *line = source + ((plane * r[CORRELATE_RECORD_IN_DEPTH] + from_z) * r[CORRELATE_RECORD_IN_HEIGHT] + from_y) * r[CORRELATE_RECORD_IN_WIDTH] * channels + channel;
                    for (int64 dx = 0; dx < r[CORRELATE_RECORD_FILTER_WIDTH]; ++dx, ++tap) {
                        const int64 from_x = inside(x + dx - r[CORRELATE_RECORD_ANCHOR_WIDTH], r[CORRELATE_RECORD_IN_WIDTH], border);
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

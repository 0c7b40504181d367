// Resampling of sound. Macros: IN, OUT element types, FACTOR, OFFSET make a number of the output's range of the input's, PER_LOBE entries
// of the window from one zero of the sinc to the next.
#include "kernel.cuh"

DEVICE float32 weight_of(const float32 *table, float64 place) {
    const int64 cell = (int64)place;
    return table[cell] + (table[cell + 1] - table[cell]) * (float32)(place - cell);
}

DEVICE float32 loaded(IN element) { return (float32)element * (float32)(FACTOR) + (float32)(OFFSET); }

// The table is that of resample_step, then 8 samples.
KERNEL resample(const int64 *context) {
    const int64 lobes = context[7];
    const float32 *table = array<float32>(context, 6);
    FOR_SAMPLES(sample, context[8]) {
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        const int64 length = array<int64>(context, 2)[sample], channels = array<int64>(context, 4)[sample];
        const float64 ratio = array<float64>(context, 5)[sample];
        FOR_ITEMS(i, array<int64>(context, 3)[sample] * channels) {
            const int64 time = i / channels, channel = i - time * channels;
            const float64 position = (float64)time * ratio;
            const int64 first = larger((int64)ceil(position - lobes), (int64)0);
            const int64 last = smaller((int64)floor(position + lobes), length - 1);
            const int64 taps = larger(last - first + 1, (int64)0);
            float32 sums[4] = {0, 0, 0, 0};
            for (int64 k = 0; k < taps; ++k) {
                const float32 weight = weight_of(table, ((float64)(first + k) - position + lobes) * PER_LOBE);
                sums[k < (taps & -4) ? k & 3 : 0] += weight * loaded(source[(first + k) * channels + channel]);
            }
            out[i] = convert<OUT>((sums[0] + sums[1]) + (sums[2] + sums[3]));
        }
    }
}

// Resample sound. Macros: IN, OUT element types; FACTOR, OFFSET: map the range of IN to the range of OUT; PER_LOBE: rows of weights between
// two zeros of the sinc.
#include "kernel.cuh"
#include "resampling_tables.py"

DEVICE float32 loaded(IN element) { return (float32)element * (float32)(FACTOR) + (float32)(OFFSET); }

KERNEL resample(const int64 *context) {
    const int64 lobes = context[RESAMPLE_LOBES], taps = context[RESAMPLE_TAPS];
    FOR_SAMPLES(sample, context[RESAMPLE_SAMPLES]) {
        const IN *source = at<const IN>(address(context, RESAMPLE_INPUTS, sample));
        OUT *out = at<OUT>(address(context, RESAMPLE_OUTPUTS, sample));
        const int64 length = array<int64>(context, RESAMPLE_LENGTHS)[sample], channels = array<int64>(context, RESAMPLE_CHANNELS)[sample];
        const float64 ratio = array<float64>(context, RESAMPLE_RATIOS)[sample];
        FOR_ITEMS(i, array<int64>(context, RESAMPLE_COUNTS)[sample] * channels) {
            const int64 time = i / channels, channel = i - time * channels;
            const float64 position = (float64)time * ratio, whole = floor(position), place = PER_LOBE * (1 - (position - whole));
            const int64 row = (int64)place, begin = (int64)whole - lobes + 1;
            const float32 *first = array<float32>(context, RESAMPLE_WEIGHTS) + row * taps, *second = first + taps;
            const int64 stop = smaller(2 * lobes, length - begin);
            float32 a = 0, b = 0;
            for (int64 k = larger(-begin, (int64)0); k < stop; ++k) {
                const float32 value = loaded(source[(begin + k) * channels + channel]);
                a += first[k] * value;
                b += second[k] * value;
            }
            out[i] = convert<OUT>(a + (b - a) * (float32)(place - row));
        }
    }
}

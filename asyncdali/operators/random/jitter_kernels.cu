// jitter: every pixel is copied from a random neighbour (jitter_kernels.py).
// Macro: IN element type.
#include "../../sampling/philox.cuh"
#include "jitter.py"

DEVICE int64 displacement(uint32 draw, int64 degree) {
    const uint64 part = (degree & (degree - 1)) == 0 ? draw & (uint64)(degree - 1) : ((uint64)draw * (uint64)degree) >> 32;
    return (int64)part - (degree >> 1);
}

KERNEL jitter(const int64 *context) {
    const int64 degree = context[JITTER_DEGREE];
    FOR_SAMPLES(sample, context[JITTER_SAMPLES]) {
        const int64 *r = array<int64>(context, JITTER_RECORDS) + JITTER_RECORD_WORDS * sample;
        const int64 height = r[JITTER_RECORD_HEIGHT], width = r[JITTER_RECORD_WIDTH], channels = r[JITTER_RECORD_CHANNELS];
        const Counter counter{(uint64)context[JITTER_POSITION_KEY], (uint64)context[JITTER_POSITION_HI] + 65537u * (uint64)sample, (uint64)context[JITTER_POSITION_LO]};
        const IN *source = at<const IN>(address(context, JITTER_INPUTS, sample));
        IN *out = at<IN>(address(context, JITTER_OUTPUTS, sample));
        FOR_ITEMS(i, height * width * channels) {
            if (!r[JITTER_RECORD_MASK]) {
                out[i] = source[i];
                continue;
            }
            int64 rest = i;
            const int64 channel = take(rest, channels), x = take(rest, width), y = rest;
            const int64 slot = context[JITTER_PER_PIXEL] ? i - channel : i;
            const Words words = words_from(counter, (uint64)context[JITTER_POSITION_PHASE] + 257u * (uint64)slot, 2);
            const int64 from_x = smaller(larger(x + displacement(words.word[0], degree), (int64)0), width - 1);
            const int64 from_y = smaller(larger(y + displacement(words.word[1], degree), (int64)0), height - 1);
            out[i] = source[(from_y * width + from_x) * channels + channel];
        }
    }
}

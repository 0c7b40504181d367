// coord_flip and bb_flip. The tables are those of mirror_kernels.py, then 5 samples.
#include "kernel.cuh"

KERNEL coordinates(const int64 *context) {
    const int64 length = context[3];
    FOR_SAMPLES(sample, context[5]) {
        const float32 *source = at<const float32>(address(context, 0, sample)), *table = array<float32>(context, 4) + 2 * length * sample;
        float32 *out = at<float32>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample] * length) {
            const int64 k = i % length;
            out[i] = table[2 * k] > 0 ? source[i] : table[2 * k + 1] - source[i];
        }
    }
}

KERNEL boxes(const int64 *context) {
    const bool corners = context[4] != 0;
    FOR_SAMPLES(sample, context[5]) {
        const int64 flags = address(context, 3, sample);
        const float32 *source = at<const float32>(address(context, 0, sample));
        float32 *out = at<float32>(address(context, 1, sample));
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            for (int axis = 0; axis < 2; ++axis) {
                float32 low = source[4 * i + axis], high = source[4 * i + axis + 2];
                if (!corners) high = low + high;
                if (flags >> axis & 1) {
                    const float32 kept = low;
                    low = 1.0f - high;
                    high = 1.0f - kept;
                }
                out[4 * i + axis] = low;
                out[4 * i + axis + 2] = corners ? high : high - low;
            }
        }
    }
}

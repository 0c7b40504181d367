// coord_flip and bb_flip.
#include "kernel.cuh"
#include "mirror_tables.py"

KERNEL coordinates(const int64 *context) {
    const int64 length = context[COORD_FLIP_LENGTH];
    FOR_SAMPLES(sample, context[COORD_FLIP_SAMPLES]) {
        const float32 *source = at<const float32>(address(context, COORD_FLIP_INPUTS, sample)), *mirrors = array<float32>(context, COORD_FLIP_MIRRORS) + 2 * length * sample;
        float32 *out = at<float32>(address(context, COORD_FLIP_OUTPUTS, sample));
        FOR_ITEMS(i, array<int64>(context, COORD_FLIP_POINTS)[sample] * length) {
            const int64 k = i % length;
            out[i] = mirrors[2 * k] > 0 ? source[i] : mirrors[2 * k + 1] - source[i];
        }
    }
}

KERNEL boxes(const int64 *context) {
    const bool corners = context[BB_FLIP_CORNERS] != 0;
    FOR_SAMPLES(sample, context[BB_FLIP_SAMPLES]) {
        const int64 flags = address(context, BB_FLIP_FLAGS, sample);
        const float32 *source = at<const float32>(address(context, BB_FLIP_INPUTS, sample));
        float32 *out = at<float32>(address(context, BB_FLIP_OUTPUTS, sample));
        FOR_ITEMS(i, array<int64>(context, BB_FLIP_BOXES)[sample]) {
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

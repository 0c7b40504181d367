// bb_flip: mirror boxes.
#include "samples.cuh"
#include "bb_flip.py"

DEVICE void item(int64 i, const Sample &sample) {
    const bool corners = sample.record[BB_FLIP_CORNERS] != 0;
    const float32 *box = sample.input<IN0>(0) + 4 * i;
    float32 *out = sample.output<OUT0>(0) + 4 * i;
    for (int axis = 0; axis < 2; ++axis) {
        float32 low = box[axis], high = box[axis + 2];
        if (!corners) high = low + high;
        if (sample.record[BB_FLIP_FLIP_X + axis]) {
            const float32 kept = low;
            low = 1.0f - high;
            high = 1.0f - kept;
        }
        out[axis] = low;
        out[axis + 2] = corners ? high : high - low;
    }
}

// A matrix applied along one axis, in float64. The table is that of axis_matrix_kernels.py, with samples in the place of the scratch.
#include "kernel.cuh"

KERNEL axis_matrix(const int64 *context) {
    const int64 rows = context[4], columns = context[5];
    FOR_SAMPLES(sample, context[7]) {
        const int64 outer = array<int64>(context, 2)[2 * sample], inner = array<int64>(context, 2)[2 * sample + 1];
        const float32 *source = at<const float32>(address(context, 0, sample));
        float32 *out = at<float32>(address(context, 1, sample));
        FOR_ITEMS(i, outer * rows * inner) {
            int64 rest = i;
            const int64 place = take(rest, inner), row = take(rest, rows);
            const int64 begin = array<int64>(context, 6)[2 * row], end = array<int64>(context, 6)[2 * row + 1];
            const float64 *weights = array<float64>(context, 3) + row * columns;
            const float32 *column = source + rest * columns * inner + place;
            float64 total = 0;
            for (int64 c = begin; c < end; ++c) total += weights[c] * (float64)column[c * inner];
            out[i] = (float32)total;
        }
    }
}

// grid_mask: pixels in a turned grid of squares become zero. The table is that of grid_mask_kernels.py, then 4 samples.
// Macros: IN, OUT element types (the same).
#include "kernel.cuh"

KERNEL grid_mask(const int64 *context) {
    FOR_SAMPLES(sample, context[4]) {
        const int64 *r = array<int64>(context, 2) + 4 * sample;
        const float32 *grid = array<float32>(context, 3) + 5 * sample;
        const float32 cosine = grid[0], sine = grid[1], shift_x = grid[2], shift_y = grid[3], ratio = grid[4];
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        FOR_ITEMS(i, r[0] * r[1] * r[2] * r[3]) {
            int64 rest = i / r[3];
            const float32 x = (float32)take(rest, r[2]), y = (float32)take(rest, r[1]);
            const float32 across = x * cosine - y * sine + shift_x, down = x * sine + y * cosine + shift_y;
            const bool black = across - floorf(across) < ratio && down - floorf(down) < ratio;
            out[i] = black ? (OUT)0 : (OUT)source[i];
        }
    }
}

// grid_mask: set the pixels inside the squares of a rotated grid to zero.
// Macros: IN, OUT element types (equal).
#include "grid_mask_tables.py"
#include "kernel.cuh"

KERNEL grid_mask(const int64 *context) {
    FOR_SAMPLES(sample, context[GRID_MASK_SAMPLES]) {
        const int64 *r = array<int64>(context, GRID_MASK_GEOMETRY) + GEOMETRY_WORDS * sample;
        const float32 *grid = array<float32>(context, GRID_MASK_GRIDS) + GRID_WORDS * sample;
        const float32 cosine = grid[GRID_COSINE], sine = grid[GRID_SINE], ratio = grid[GRID_RATIO];
        const float32 shift_x = grid[GRID_SHIFT_X], shift_y = grid[GRID_SHIFT_Y];
        const int64 height = r[GEOMETRY_HEIGHT], width = r[GEOMETRY_WIDTH], channels = r[GEOMETRY_CHANNELS];
        const IN *source = at<const IN>(address(context, GRID_MASK_INPUTS, sample));
        OUT *out = at<OUT>(address(context, GRID_MASK_OUTPUTS, sample));
        FOR_ITEMS(pixel, r[GEOMETRY_PLANES] * height * width) {
            int64 rest = pixel;
            const float32 x = (float32)take(rest, width), y = (float32)take(rest, height);
            const float32 across = x * cosine - y * sine + shift_x, down = x * sine + y * cosine + shift_y;
            const bool black = across - floorf(across) < ratio && down - floorf(down) < ratio;
            for (int64 i = pixel * channels; i < (pixel + 1) * channels; ++i) out[i] = black ? (OUT)0 : (OUT)source[i];
        }
    }
}

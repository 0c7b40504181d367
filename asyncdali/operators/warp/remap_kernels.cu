// experimental.remap: the maps give the source position of every pixel (remap_kernels.py).
// Macro: IN element type.
#include "kernel.cuh"
#include "remap_tables.py"

// An element as float; 0 outside.
DEVICE float32 tap(const IN *pixels, int64 y, int64 x, int64 c, int64 height, int64 width, int64 channels) {
    return y >= 0 && y < height && x >= 0 && x < width ? real(pixels[(y * width + x) * channels + c]) : 0.0f;
}

KERNEL remap(const int64 *context) {
    const float32 shift = context[REMAP_CORNER] ? 0.5f : 0.0f;
    FOR_SAMPLES(sample, context[REMAP_SAMPLES]) {
        const int64 *r = array<int64>(context, REMAP_RECORDS) + REMAP_RECORD_WORDS * sample;
        const int64 height = r[REMAP_RECORD_HEIGHT], width = r[REMAP_RECORD_WIDTH], channels = r[REMAP_RECORD_CHANNELS];
        FOR_ITEMS(i, r[REMAP_RECORD_FRAMES] * height * width) {
            int64 frame = i;
            const int64 place = take(frame, height * width);
            const IN *pixels = at<const IN>(address(context, REMAP_INPUTS, sample)) + frame * height * width * channels;
            IN *out = at<IN>(address(context, REMAP_OUTPUTS, sample)) + i * channels;
            const float32 x = at<const float32>(address(context, REMAP_MAPS_X, sample))[frame * r[REMAP_RECORD_STEP_X] + place] - shift;
            const float32 y = at<const float32>(address(context, REMAP_MAPS_Y, sample))[frame * r[REMAP_RECORD_STEP_Y] + place] - shift;
            if (!(x > -1.0f && x < (float32)width && y > -1.0f && y < (float32)height)) {
                for (int64 c = 0; c < channels; ++c) out[c] = 0;
                continue;
            }
            if (!context[REMAP_LINEAR]) {
                const int64 column = (int64)floorf(x + 0.5f), row = (int64)floorf(y + 0.5f);
                const bool inside = column >= 0 && column < width && row >= 0 && row < height;
                for (int64 c = 0; c < channels; ++c) out[c] = inside ? pixels[(row * width + column) * channels + c] : (IN)0;
                continue;
            }
            const int64 column = (int64)floorf(x), row = (int64)floorf(y);
            const float32 fx = x - (float32)column, fy = y - (float32)row;
            for (int64 c = 0; c < channels; ++c) {
                float32 a = tap(pixels, row, column, c, height, width, channels), b = tap(pixels, row, column + 1, c, height, width, channels);
                const float32 upper = a + (b - a) * fx;
                a = tap(pixels, row + 1, column, c, height, width, channels);
                b = tap(pixels, row + 1, column + 1, c, height, width, channels);
                const float32 lower = a + (b - a) * fx;
                out[c] = convert<IN>(upper + (lower - upper) * fy);
            }
        }
    }
}

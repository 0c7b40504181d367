// experimental.remap: the maps give the source position of every pixel.
#include "samples.cuh"
#include "remap.py"

// An element as float; 0 outside.
DEVICE float32 tap(const IN0 *pixels, int64 y, int64 x, int64 c, int64 height, int64 width, int64 channels) {
    return y >= 0 && y < height && x >= 0 && x < width ? real(pixels[(y * width + x) * channels + c]) : 0.0f;
}

DEVICE void item(int64 i, const Sample &sample) {
    const int64 *r = sample.record;
    const float32 shift = r[REMAP_CORNER] ? 0.5f : 0.0f;
    const int64 height = r[REMAP_HEIGHT], width = r[REMAP_WIDTH], channels = r[REMAP_CHANNELS];
    int64 frame = i;
    const int64 place = take(frame, height * width);
    const IN0 *pixels = sample.input<IN0>(0) + frame * height * width * channels;
    OUT0 *out = sample.output<OUT0>(0) + i * channels;
    const float32 x = sample.input<float32>(1)[frame * r[REMAP_STEP_X] + place] - shift;
    const float32 y = sample.input<float32>(2)[frame * r[REMAP_STEP_Y] + place] - shift;
    if (!(x > -1.0f && x < (float32)width && y > -1.0f && y < (float32)height)) {
        for (int64 c = 0; c < channels; ++c) out[c] = 0;
        return;
    }
    if (!r[REMAP_LINEAR]) {
        const int64 column = (int64)floorf(x + 0.5f), row = (int64)floorf(y + 0.5f);
        const bool inside = column >= 0 && column < width && row >= 0 && row < height;
        for (int64 c = 0; c < channels; ++c) out[c] = inside ? pixels[(row * width + column) * channels + c] : (OUT0)0;
        return;
    }
    const int64 column = (int64)floorf(x), row = (int64)floorf(y);
    const float32 fx = x - (float32)column, fy = y - (float32)row;
    for (int64 c = 0; c < channels; ++c) {
        float32 a = tap(pixels, row, column, c, height, width, channels), b = tap(pixels, row, column + 1, c, height, width, channels);
        const float32 upper = a + (b - a) * fx;
        a = tap(pixels, row + 1, column, c, height, width, channels);
        b = tap(pixels, row + 1, column + 1, c, height, width, channels);
        const float32 lower = a + (b - a) * fx;
        out[c] = convert<OUT0>(upper + (lower - upper) * fy);
    }
}

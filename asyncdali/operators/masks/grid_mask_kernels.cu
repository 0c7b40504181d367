// grid_mask: set the pixels inside the squares of a rotated grid to zero.
// Macros: IN, OUT element types (equal).
#include "grid_mask.py"
#include "lines.cuh"

// The grid of a sample.
struct Grid {
    float32 cosine, sine, ratio, shift_x, shift_y;
    DEVICE_MEMBER bool hides(float32 x, float32 y) const {
        const float32 across = x * cosine - y * sine + shift_x, down = x * sine + y * cosine + shift_y;
        return across - floorf(across) < ratio && down - floorf(down) < ratio;
    }
};

DEVICE Grid grid_of(const int64 *context, int64 sample) {
    const float32 *grid = array<float32>(context, GRID_MASK_GRIDS) + GRID_WORDS * sample;
    return Grid{grid[GRID_COSINE], grid[GRID_SINE], grid[GRID_RATIO], grid[GRID_SHIFT_X], grid[GRID_SHIFT_Y]};
}

KERNEL grid_mask(const int64 *context) {
    FOR_SAMPLES(sample, context[GRID_MASK_SAMPLES]) {
        const int64 *r = array<int64>(context, GRID_MASK_GEOMETRY) + GEOMETRY_WORDS * sample;
        const Grid grid = grid_of(context, sample);
        const int64 height = r[GEOMETRY_HEIGHT], width = r[GEOMETRY_WIDTH], channels = r[GEOMETRY_CHANNELS];
        const IN *source = at<const IN>(address(context, GRID_MASK_INPUTS, sample));
        OUT *out = at<OUT>(address(context, GRID_MASK_OUTPUTS, sample));
        FOR_ITEMS(pixel, r[GEOMETRY_PLANES] * height * width) {
            int64 rest = pixel;
            const float32 x = (float32)take(rest, width), y = (float32)take(rest, height);
            const bool black = grid.hides(x, y);
            for (int64 i = pixel * channels; i < (pixel + 1) * channels; ++i) out[i] = black ? (OUT)0 : (OUT)source[i];
        }
    }
}

// The same for pixels of three bytes, 16 per thread: lines of the output are aligned, as in map_pixels.
KERNEL grid_mask_three_bytes(const int64 *context) {
    FOR_SAMPLES(sample, context[GRID_MASK_SAMPLES]) {
        const int64 *r = array<int64>(context, GRID_MASK_GEOMETRY) + GEOMETRY_WORDS * sample;
        const Grid grid = grid_of(context, sample);
        const int64 height = r[GEOMETRY_HEIGHT], width = r[GEOMETRY_WIDTH], count = r[GEOMETRY_PLANES] * height * width;
        const int64 source = address(context, GRID_MASK_INPUTS, sample), out = address(context, GRID_MASK_OUTPUTS, sample);
        const int64 before = smaller((int64)(5 * (int32)(out & (LINE - 1)) & (LINE - 1)), count);
        FOR_ITEMS(i, 1 + (count - before + LINE - 1) / LINE) {
            const int64 begin = i ? before + LINE * (i - 1) : 0, end = i ? smaller(begin + LINE, count) : before;
            if (begin >= end) continue;
            int64 rest = begin;
            int32 x = (int32)take(rest, width), y = (int32)take(rest, height);
            const auto hidden = [&]() {
                const bool black = grid.hides((float32)x, (float32)y);
                if (++x == width) {
                    x = 0;
                    if (++y == height) y = 0;
                }
                return black;
            };
            if (end - begin < LINE) {
                for (int64 k = begin; k < end; ++k) {
                    const bool black = hidden();
                    for (int32 c = 0; c < 3; ++c) at<uint8>(out)[3 * k + c] = black ? (uint8)0 : at<const uint8>(source)[3 * k + c];
                }
                continue;
            }
            union { Line line[3]; uint8 byte[3 * LINE]; } pixels;
            #pragma unroll
            for (int32 k = 0; k < 3; ++k) pixels.line[k] = load_line(source + 3 * begin + LINE * k);
            #pragma unroll
            for (int32 k = 0; k < LINE; ++k) {
                const bool black = hidden();
                #pragma unroll
                for (int32 c = 0; c < 3; ++c) pixels.byte[3 * k + c] = black ? (uint8)0 : pixels.byte[3 * k + c];
            }
            #pragma unroll
            for (int32 k = 0; k < 3; ++k) store_line(out + 3 * begin + LINE * k, pixels.line[k]);
        }
    }
}

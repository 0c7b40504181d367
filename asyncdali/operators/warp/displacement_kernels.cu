// sphere and water: every pixel is copied from a displaced position (displacement_kernels.py).
// Macros: IN element type; WATER 1: water, 0: sphere.
#include "kernel.cuh"
#include "displacement.py"

#ifdef HOST_BUILD
DEVICE float32 root(float32 x) { return std::sqrt(x); }
#else
DEVICE float32 root(float32 x) { return __fsqrt_rn(x); }
#endif

// The values that all pixels of a row share: the displacement along x (water), or the distance from the middle along y (sphere).
struct Row { float32 y, value, middle_x, middle_y, half; };

DEVICE Row row_of(int64 y, int64 height, int64 width, const float32 *p) {
    Row row = {(float32)y, 0, 0, 0, 0};
#if WATER
    row.value = p[0] * sinf(p[2] * row.y + p[4]);
#else
    row.half = (float32)larger(width / 2, height / 2), row.middle_x = (float32)width / 2.0f, row.middle_y = (float32)height / 2.0f;
    row.value = (row.y + 0.5f) - row.middle_y;
#endif
    return row;
}

struct Place { float32 x, y; };

DEVICE Place place_of(const Row &row, int32 x, const float32 *p) {
#if WATER
    const float32 along_y = p[1] * cosf(p[3] * (float32)x + p[5]);
    return {(float32)x + row.value, row.y + along_y};
#else
    const float32 dx = ((float32)x + 0.5f) - row.middle_x, dy = row.value;
    const float32 part = root(dx * dx + dy * dy) / row.half;
    return {row.middle_x + part * dx, row.middle_y + part * dy};
#endif
}

DEVICE float32 mixed(float32 a, float32 b, float32 d, float32 e, float32 fx, float32 fy) {
    const float32 high = fmaf(b - a, fx, a), low = fmaf(e - d, fx, d);
    return fmaf(low - high, fy, high);
}

// A pixel between four neighbours that are inside of the image. CHANNELS 0: their number is known at run time only.
template <int CHANNELS> DEVICE void between(const IN *above, const IN *below, int64 count, float32 fx, float32 fy, IN *to) {
    const int64 channels = CHANNELS ? CHANNELS : count;
#pragma unroll
    for (int64 c = 0; c < channels; ++c) {
        to[c] = convert<IN>(mixed(
            (float32)above[c], (float32)above[channels + c], (float32)below[c], (float32)below[channels + c], fx, fy));
    }
}

KERNEL displace(const int64 *context) {
    const float32 fill = *array<float32>(context, DISPLACEMENT_FILL), *p = array<float32>(context, DISPLACEMENT_PARAMETERS);
    const bool linear = context[DISPLACEMENT_LINEAR] != 0;
    const float32 reach = linear ? 0.5f : 0.0f;
    FOR_SAMPLES(sample, context[DISPLACEMENT_SAMPLES]) {
        const int64 *shape = array<int64>(context, DISPLACEMENT_SHAPES) + IMAGE_WORDS * sample;
        const int64 height = shape[IMAGE_HEIGHT], width = shape[IMAGE_WIDTH], channels = shape[IMAGE_CHANNELS];
        const IN *source = at<const IN>(address(context, DISPLACEMENT_INPUTS, sample));
        IN *out = at<IN>(address(context, DISPLACEMENT_OUTPUTS, sample));
        const bool stays = array<int64>(context, DISPLACEMENT_MASKS)[sample] == 0;
        const int32 lanes = lanes_of(width);
        FOR_ROWS(y, height, lanes) {
            const Row row = row_of(y, height, width, p);
            FOR_COLUMNS(x, width, lanes) {
                const int64 i = y * width + x;
                IN *to = out + i * channels;
                const Place place = place_of(row, x, p);
                const bool inside =
                    place.x >= -reach && place.x < (float32)width + reach && place.y >= -reach && place.y < (float32)height + reach;
                if (stays || !inside) {  // comparisons with NaN are false: a NaN position counts as outside
                    for (int64 c = 0; c < channels; ++c) to[c] = stays ? source[i * channels + c] : convert<IN>(fill);
                    continue;
                }
                const float32 px = place.x - reach, py = place.y - reach;
                const int64 left = (int64)floorf(px), top = (int64)floorf(py);
                const float32 fx = px - (float32)left, fy = py - (float32)top;
                const IN *above = source + (top * width + left) * channels, *below = above + width * channels;
                const bool near = left >= 0 && left < width, next = left + 1 < width;
                const bool up = top >= 0 && top < height, down = top + 1 < height;
                if (linear && near && next && up && down) {
                    if (channels == 3) between<3>(above, below, 3, fx, fy, to);
                    else if (channels == 1) between<1>(above, below, 1, fx, fy, to);
                    else between<0>(above, below, channels, fx, fy, to);
                    continue;
                }
                for (int64 c = 0; c < channels; ++c) {
                    const float32 a = near && up ? (float32)above[c] : fill;
                    if (!linear) {
                        to[c] = convert<IN>(a);
                        continue;
                    }
                    const float32 b = next && up ? (float32)above[channels + c] : fill;
                    const float32 d = near && down ? (float32)below[c] : fill, e = next && down ? (float32)below[channels + c] : fill;
                    to[c] = convert<IN>(mixed(a, b, d, e, fx, fy));
                }
            }
        }
    }
}

// sphere and water: every pixel is copied from a displaced position (displacement_kernels.py).
// Macros: IN element type; WATER 1: water, 0: sphere.
#include "kernel.cuh"
#include "displacement.py"

#ifdef HOST_BUILD
DEVICE float32 root(float32 x) { return std::sqrt(x); }
#else
DEVICE float32 root(float32 x) { return __fsqrt_rn(x); }
#endif

struct Place { float32 x, y; };

DEVICE Place place_of(int64 y, int64 x, int64 height, int64 width, const float32 *p) {
#if WATER
    const float32 along_x = p[0] * sinf(p[2] * (float32)y + p[4]), along_y = p[1] * cosf(p[3] * (float32)x + p[5]);
    return {(float32)x + along_x, (float32)y + along_y};
#else
    const float32 half = (float32)larger(width / 2, height / 2), middle_x = (float32)width / 2.0f, middle_y = (float32)height / 2.0f;
    const float32 dx = ((float32)x + 0.5f) - middle_x, dy = ((float32)y + 0.5f) - middle_y;
    const float32 part = root(dx * dx + dy * dy) / half;
    return {middle_x + part * dx, middle_y + part * dy};
#endif
}

KERNEL displace(const int64 *context) {
    const float32 fill = *array<float32>(context, DISPLACEMENT_FILL);
    const bool linear = context[DISPLACEMENT_LINEAR] != 0;
    const float32 reach = linear ? 0.5f : 0.0f;
    FOR_SAMPLES(sample, context[DISPLACEMENT_SAMPLES]) {
        const int64 *shape = array<int64>(context, DISPLACEMENT_SHAPES) + IMAGE_WORDS * sample;
        const int64 height = shape[IMAGE_HEIGHT], width = shape[IMAGE_WIDTH], channels = shape[IMAGE_CHANNELS];
        const IN *source = at<const IN>(address(context, DISPLACEMENT_INPUTS, sample));
        IN *out = at<IN>(address(context, DISPLACEMENT_OUTPUTS, sample));
        const bool stays = array<int64>(context, DISPLACEMENT_MASKS)[sample] == 0;
        FOR_ITEMS(i, height * width) {
            IN *to = out + i * channels;
            int64 y = i;
            const int64 x = take(y, width);
            const Place place = place_of(y, x, height, width, array<float32>(context, DISPLACEMENT_PARAMETERS));
            const bool inside = place.x >= -reach && place.x < (float32)width + reach && place.y >= -reach && place.y < (float32)height + reach;
            if (stays || !inside) {  // comparisons with NaN are false: a NaN position counts as outside
                for (int64 c = 0; c < channels; ++c) to[c] = stays ? source[i * channels + c] : convert<IN>(fill);
                continue;
            }
            const float32 px = place.x - reach, py = place.y - reach;
            const int64 left = (int64)floorf(px), top = (int64)floorf(py);
            const bool near = left >= 0 && left < width, next = left + 1 < width, up = top >= 0 && top < height, down = top + 1 < height;
            const float32 fx = px - (float32)left, fy = py - (float32)top;
            const IN *above = source + (top * width + left) * channels, *below = above + width * channels;
            for (int64 c = 0; c < channels; ++c) {
                const float32 a = near && up ? (float32)above[c] : fill;
                if (!linear) {
                    to[c] = convert<IN>(a);
                    continue;
                }
                const float32 b = next && up ? (float32)above[channels + c] : fill;
                const float32 d = near && down ? (float32)below[c] : fill, e = next && down ? (float32)below[channels + c] : fill;
                const float32 high = fmaf(b - a, fx, a), low = fmaf(e - d, fx, d);
                to[c] = convert<IN>(fmaf(low - high, fy, high));
            }
        }
    }
}

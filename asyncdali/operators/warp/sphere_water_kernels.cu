// sphere and water: every pixel is copied from a displaced position (sphere_water_kernels.py).
// Macros: IN element type; WATER 1: water, 0: sphere.
#include "quads.cuh"
#include "sphere_water.py"

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

// A sample.
struct Picture {
    const IN *source;
    IN *out;
    const float32 *p;
    int64 height, width, channels;
    float32 fill, reach;
    bool linear, stays;

    Picture() = default;
    DEVICE_MEMBER Picture(const int64 *context, int64 sample) {
        const int64 *shape = array<int64>(context, DISPLACEMENT_SHAPES) + IMAGE_WORDS * sample;
        source = at<const IN>(address(context, DISPLACEMENT_INPUTS, sample)), out = at<IN>(address(context, DISPLACEMENT_OUTPUTS, sample));
        height = shape[IMAGE_HEIGHT], width = shape[IMAGE_WIDTH], channels = shape[IMAGE_CHANNELS];
        p = array<float32>(context, DISPLACEMENT_PARAMETERS), fill = *array<float32>(context, DISPLACEMENT_FILL);
        linear = context[DISPLACEMENT_LINEAR] != 0, reach = linear ? 0.5f : 0.0f;
        stays = array<int64>(context, DISPLACEMENT_MASKS)[sample] == 0;
    }
};

// One pixel.
DEVICE void pixel(const Picture &a, const Row &row, int64 y, int32 x, IN *to) {
    const int64 height = a.height, width = a.width, channels = a.channels;
    const Place place = place_of(row, x, a.p);
    const bool inside =
        place.x >= -a.reach && place.x < (float32)width + a.reach && place.y >= -a.reach && place.y < (float32)height + a.reach;
    if (a.stays || !inside) {  // comparisons with NaN are false: a NaN position counts as outside
        for (int64 c = 0; c < channels; ++c) to[c] = a.stays ? a.source[(y * width + x) * channels + c] : convert<IN>(a.fill);
        return;
    }
    const float32 px = place.x - a.reach, py = place.y - a.reach;
    const int64 left = (int64)floorf(px), top = (int64)floorf(py);
    const float32 fx = px - (float32)left, fy = py - (float32)top;
    const IN *above = a.source + (top * width + left) * channels, *below = above + width * channels;
    const bool near = left >= 0 && left < width, next = left + 1 < width;
    const bool up = top >= 0 && top < height, down = top + 1 < height;
    if (a.linear && near && next && up && down) {
        if (channels == 3) between<3>(above, below, 3, fx, fy, to);
        else if (channels == 1) between<1>(above, below, 1, fx, fy, to);
        else between<0>(above, below, channels, fx, fy, to);
        return;
    }
    for (int64 c = 0; c < channels; ++c) {
        const float32 one = near && up ? (float32)above[c] : a.fill;
        if (!a.linear) {
            to[c] = convert<IN>(one);
            continue;
        }
        const float32 b = next && up ? (float32)above[channels + c] : a.fill;
        const float32 d = near && down ? (float32)below[c] : a.fill, e = next && down ? (float32)below[channels + c] : a.fill;
        to[c] = convert<IN>(mixed(one, b, d, e, fx, fy));
    }
}

KERNEL displace(const int64 *context) {
    FOR_SAMPLES(sample, context[DISPLACEMENT_SAMPLES]) {
        const Picture a(context, sample);
        const int32 lanes = lanes_of(a.width);
        FOR_ROWS(y, a.height, lanes) {
            const Row row = row_of(y, a.height, a.width, a.p);
            FOR_COLUMNS(x, a.width, lanes) pixel(a, row, y, x, a.out + (y * a.width + x) * a.channels);
        }
    }
}

// ----------------------------------------------------------------------- images of three bytes per pixel, four pixels at a time

// What the quads of a row share. Positions from `least` up to `right` and `bottom` are in the picture.
struct Line {
    Picture whole;
    Row row;
    int64 y, to;
    int32 height, width;
    float32 least, right, bottom;
    uint32 fill;

    DEVICE_MEMBER void begin(const Picture &a, int64 line) {
        whole = a, y = line, row = row_of(y, a.height, a.width, a.p), to = (int64)a.out + y * a.width * 3;
        height = (int32)a.height, width = (int32)a.width;
        least = -a.reach, right = (float32)a.width + a.reach, bottom = (float32)a.height + a.reach;
        fill = 0x01010101u * (uint32)(uint8)convert<uint8>(a.fill);
    }
};

APART void pixels(const Line *a, int32 begin, int32 end) {
    for (int32 x = begin; x < end; ++x) pixel(a->whole, a->row, a->y, x, a->whole.out + (a->y * a->width + x) * 3);
}

// Four pixels of a row, from pixel `x` on, as words. False: some of them are at the border. BLENDS: linear interpolation.
template <bool BLENDS> DEVICE bool quad(const Line &a, int32 x, uint32 *word) {
    int32 place[QUAD], found = 0, outside = 0;
    float32 fx[QUAD], fy[QUAD];
    #pragma unroll
    for (int32 j = 0; j < QUAD; ++j) {
        const Place at = place_of(a.row, x + j, a.whole.p);
        const int32 left = floor_of(at.x + a.least, fx[j]), top = floor_of(at.y + a.least, fy[j]);
        if ((uint32)left < (uint32)(a.width - BLENDS) && (uint32)top < (uint32)(a.height - BLENDS)) found |= 1 << j;
        if (!(at.x >= a.least && at.x < a.right && at.y >= a.least && at.y < a.bottom)) outside |= 1 << j;
        place[j] = (top * a.width + left) * 3;
    }
    if (BLENDS && found == 15) {
        blend<true>((int64)a.whole.source, 3 * a.width, place, fx, fy, word);
    } else if (outside == 15) {
        word[0] = word[1] = word[2] = a.fill;
    } else if (BLENDS) {
        return false;
    } else {
        uint32 one[QUAD];
        #pragma unroll
        for (int32 j = 0; j < QUAD; ++j) one[j] = found >> j & 1 ? three_bytes((int64)a.whole.source + place[j]) : a.fill;
        joined(one, word);
    }
    return true;
}

template <bool BLENDS> DEVICE void all_quads(const Line &a, int32 lanes) {
    FOR_QUADS(x, a.to, a.width, lanes) {
        uint32 word[3];
        if (x >= 0 && x + QUAD <= a.width && quad<BLENDS>(a, x, word)) store_quad(a.to + 3 * x, word);
        else pixels(&a, larger(x, 0), smaller(x + QUAD, a.width));
    }
}

KERNEL_OF(4) displace_quads(const int64 *context) {
    __shared__ Line rows[MOST_ROWS];  // in shared memory, so that the loops have registers left
    FOR_SAMPLES(sample, context[DISPLACEMENT_SAMPLES]) {
        const int64 *shape = array<int64>(context, DISPLACEMENT_SHAPES) + IMAGE_WORDS * sample;
        const int32 lanes = lanes_of(shape[IMAGE_WIDTH] / QUAD + 1);
        FOR_ROWS_TOGETHER(first, shape[IMAGE_HEIGHT], lanes) {
            Line &a = rows[threadIdx.x / lanes];
            const int64 y = first + threadIdx.x / lanes;
            __syncthreads();
            if (threadIdx.x % lanes == 0 && y < shape[IMAGE_HEIGHT]) a.begin(Picture(context, sample), y);
            __syncthreads();
            if (y >= shape[IMAGE_HEIGHT]) continue;
            if (a.whole.stays) {
                FOR_COLUMNS(i, 3 * a.width, lanes) a.whole.out[y * a.width * 3 + i] = a.whole.source[y * a.width * 3 + i];
            } else if (a.whole.linear) {
                all_quads<true>(a, lanes);
            } else {
                all_quads<false>(a, lanes);
            }
        }
    }
}

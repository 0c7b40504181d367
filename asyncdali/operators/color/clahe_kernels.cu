// clahe: compute a look-up table for each tile, then interpolate each pixel between the tables of the tiles around it. The arithmetic is
// OpenCV's.
#include "../filters/borders.cuh"
#include "clahe_tables.py"

#define VALUES 256

DEVICE void count_one(uint32 &counter) { atomicAdd(&counter, 1u); }

DEVICE uint8 byte_of(float32 value) { return (uint8)smaller(larger(rintf(value), 0.0f), 255.0f); }
DEVICE int32 descaled(int32 value, int32 bits) { return (value + (1 << (bits - 1))) >> bits; }

// -------------------------------------------------------------------------------------------- CIELAB in integers: 8 bits of L, a and b

struct Lab { uint8 l, a, b; };

DEVICE Lab lab_of(const int64 *context, const uint8 *pixel) {
    const uint16 *linear = array<uint16>(context, CLAHE_LINEAR), *roots = array<uint16>(context, CLAHE_ROOTS);
    const int32 red = linear[pixel[0]], green = linear[pixel[1]], blue = linear[pixel[2]];
    const int32 x = roots[descaled(1777 * red + 1541 * green + 778 * blue, 12)];
    const int32 y = roots[descaled(871 * red + 2929 * green + 296 * blue, 12)];
    const int32 z = roots[descaled(73 * red + 448 * green + 3575 * blue, 12)];
    Lab lab;
    lab.l = (uint8)smaller(larger(descaled(296 * y - 1336934, 15), 0), 255);
    lab.a = (uint8)smaller(larger(descaled(500 * (x - y) + (128 << 15), 15), 0), 255);
    lab.b = (uint8)smaller(larger(descaled(200 * (y - z) + (128 << 15), 15), 0), 255);
    return lab;
}

// The inverse of the nonlinear function of CIELAB, in fixed point with 14 bits.
DEVICE int32 light_of(int32 root) {
    return root <= 3390 ? root * 108 / 841 - 290 : root * root / 16384 * root / 16384;
}

DEVICE uint8 shown(const uint16 *srgb, int32 light) {
    return (uint8)srgb[smaller(larger(descaled(light, 14), 0), 4095)];
}

DEVICE void store_lab(const int64 *context, const Lab &lab, uint8 *out) {
    const uint16 *found = array<uint16>(context, CLAHE_LUMINANCES) + 2 * lab.l, *srgb = array<uint16>(context, CLAHE_SRGB);
    const int32 y = found[0], root = found[1];
    const int32 x = light_of(root + ((5 * lab.a * 53687 + 128) >> 13) - 4194);
    const int32 z = light_of(root - (((lab.b * 41943 + 16) >> 9) - 10484));
    out[0] = shown(srgb, 12615 * x - 6296 * y - 2223 * z);
    out[1] = shown(srgb, -3773 * x + 7684 * y + 185 * z);
    out[2] = shown(srgb, 217 * x - 836 * y + 4715 * z);
}

// ------------------------------------------------------------------------------------------------------------------------------- tables

DEVICE uint8 value_of_plane(const int64 *context, const uint8 *pixel, int64 plane, bool lightness) {
    return lightness ? lab_of(context, pixel).l : pixel[plane];
}

// Limit the count of every bin. The counts above the limit are distributed evenly over all bins; the remainder goes to bins at equal
// distances.
DEVICE void limit_bins(uint32 *bins, uint32 limit) {
    uint32 cut = 0;
    for (int k = 0; k < VALUES; ++k) {
        if (bins[k] <= limit) continue;
        cut += bins[k] - limit;
        bins[k] = limit;
    }
    for (int k = 0; k < VALUES; ++k) bins[k] += cut / VALUES;
    uint32 rest = cut % VALUES;
    const int distance = rest ? larger(VALUES / (int)rest, 1) : 1;
    for (int k = 0; k < VALUES && rest; k += distance, --rest) ++bins[k];
}

// Compute the look-up tables of all tiles. A block of threads computes one tile of one plane at a time.
KERNEL tile_lookups(const int64 *context) {
    __shared__ uint32 bins[VALUES];
    const int64 across = context[CLAHE_TILES_X], tiles = across * context[CLAHE_TILES_Y];
    FOR_SAMPLES(sample, context[CLAHE_SAMPLES]) {
        const int64 *r = array<int64>(context, CLAHE_RECORDS) + CLAHE_RECORD_WORDS * sample;
        const int64 height = r[CLAHE_RECORD_HEIGHT], width = r[CLAHE_RECORD_WIDTH], channels = r[CLAHE_RECORD_CHANNELS];
        const int64 rows = r[CLAHE_RECORD_TILE_ROWS], columns = r[CLAHE_RECORD_TILE_COLUMNS], pixels = rows * columns;
        const bool lightness = context[CLAHE_LIGHTNESS] && channels == 3;
        const uint8 *source = at<const uint8>(address(context, CLAHE_INPUTS, sample));
        if (!height || !width) continue;
        for (int64 k = blockIdx.x; k < r[CLAHE_RECORD_PLANES] * tiles; k += gridDim.x) {
            const int64 plane = k / tiles, top = k % tiles / across * rows, left = k % tiles % across * columns;
            uint8 *lookup = at<uint8>(context[CLAHE_LOOKUPS]) + VALUES * (r[CLAHE_RECORD_FIRST] * tiles + k);
            for (int value = threadIdx.x; value < VALUES; value += blockDim.x) bins[value] = 0;
            __syncthreads();
            for (int64 i = threadIdx.x; i < pixels; i += blockDim.x) {
                const int64 y = reflected(top + i / columns, height), x = reflected(left + i % columns, width);
                count_one(bins[value_of_plane(context, source + (y * width + x) * channels, plane, lightness)]);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                if (r[CLAHE_RECORD_LIMIT]) limit_bins(bins, (uint32)r[CLAHE_RECORD_LIMIT]);
                for (int value = 1; value < VALUES; ++value) bins[value] += bins[value - 1];
            }
            __syncthreads();
            const float32 scale = 255.0f / (float32)pixels;
            for (int value = threadIdx.x; value < VALUES; value += blockDim.x) lookup[value] = byte_of((float32)bins[value] * scale);
            __syncthreads();
        }
    }
}

// ------------------------------------------------------------------------------------------------------------------------------- pixels

// The tiles before and behind a pixel along one axis, and the weight of the second tile.
struct Between { int64 before, behind; float32 weight; };

DEVICE Between between(int64 place, int64 extent, int64 tiles) {
    const float32 position = (float32)place * (1.0f / (float32)extent) - 0.5f, whole = floorf(position);
    return {larger((int64)whole, (int64)0), smaller((int64)whole + 1, tiles - 1), position - whole};
}

DEVICE uint8 interpolated(const uint8 *lookups, int64 across, const Between &y, const Between &x, uint8 value) {
    const uint8 *above = lookups + VALUES * across * y.before + value, *below = lookups + VALUES * across * y.behind + value;
    const float32 left = 1.0f - x.weight, top = 1.0f - y.weight;
    const float32 upper = (float32)above[VALUES * x.before] * left + (float32)above[VALUES * x.behind] * x.weight;
    const float32 lower = (float32)below[VALUES * x.before] * left + (float32)below[VALUES * x.behind] * x.weight;
    return byte_of(upper * top + lower * y.weight);
}

KERNEL equalize_tiles(const int64 *context) {
    const int64 across = context[CLAHE_TILES_X], down = context[CLAHE_TILES_Y];
    FOR_SAMPLES(sample, context[CLAHE_SAMPLES]) {
        const int64 *r = array<int64>(context, CLAHE_RECORDS) + CLAHE_RECORD_WORDS * sample;
        const int64 height = r[CLAHE_RECORD_HEIGHT], width = r[CLAHE_RECORD_WIDTH], channels = r[CLAHE_RECORD_CHANNELS];
        const bool lightness = context[CLAHE_LIGHTNESS] && channels == 3;
        const uint8 *lookups = array<uint8>(context, CLAHE_LOOKUPS) + VALUES * r[CLAHE_RECORD_FIRST] * across * down;
        FOR_ITEMS(i, height * width) {
            int64 rest = i;
            const int64 column = take(rest, width);
            const Between x = between(column, r[CLAHE_RECORD_TILE_COLUMNS], across), y = between(rest, r[CLAHE_RECORD_TILE_ROWS], down);
            const uint8 *pixel = at<const uint8>(address(context, CLAHE_INPUTS, sample)) + i * channels;
            uint8 *out = at<uint8>(address(context, CLAHE_OUTPUTS, sample)) + i * channels;
            if (lightness) {
                Lab lab = lab_of(context, pixel);
                lab.l = interpolated(lookups, across, y, x, lab.l);
                store_lab(context, lab, out);
                continue;
            }
            for (int64 c = 0; c < channels; ++c)
                out[c] = interpolated(lookups + VALUES * across * down * c, across, y, x, pixel[c]);
        }
    }
}

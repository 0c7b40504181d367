// resize: separable resampling. `taps` computes the tap tables of every axis, `resize` makes the pixels. The formulas and the order of their
// roundings are those of resize_kernels.py and tap_kernels.py.
//
// Table: 0 input addresses, 1 output addresses, 2 records int64[samples, 11], 3 source intervals float64[samples, 3, 2], 4 filter tables
// float32, 5 filter descriptions int32[6, 3], 6 axes int64[samples, 3, 3] (where first indices and weights begin in 7, taps), 7 tap tables
// (4-byte words), 8 samples.
// Macros: IN, OUT element types; VOLUME (depth is resampled); CHANNELS (all samples have that many; 0: they differ); SIGNED (weights may be
// negative).
#define RESIDENT 4
#include "kernel.cuh"
#include "resize.cuh"

enum { NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN };

DEVICE float32 gaussian_reach(float32 reach) {
    const float32 sigma = (float32)((float64)(0.5f * reach) / 1.4142135623730951);
    const float32 support = 5.656854249492381f * sigma;
    return 32.0f / (64.0f / support);
}

DEVICE void fill_nearest(int64 extent, int64 out_extent, float64 lo, float64 hi, bool running, int32 *first, float32 *weights) {
    const float32 scale = (float32)(hi - lo) / (float32)out_extent;
    const int64 begin = larger((int64)floor(smaller(lo, hi)), (int64)0);
    const float32 origin = (float32)(lo - begin);
    if (!running) {
        for (int64 i = threadIdx.x; i < out_extent; i += blockDim.x) {
            const float32 center = origin + ((float32)i + 0.5f) * scale;
            first[i] = (int32)smaller(larger(begin + (int64)floorf(center), (int64)0), extent - 1);
            weights[i] = 1;
        }
        return;
    }
    if (threadIdx.x) return;  // a running sum has an order
    float32 center = origin + 0.5f * scale;
    for (int64 i = 0; i < out_extent; ++i) {
        first[i] = (int32)smaller(larger(begin + (int64)floorf(center), (int64)0), extent - 1);
        weights[i] = 1;
        center += scale;
    }
}

KERNEL taps(const int64 *context) {
    FOR_SAMPLES(sample, context[8]) {
        const int64 axis = blockIdx.x;
        const int64 *record = array<int64>(context, 2) + 11 * sample;
        const int64 extent = record[1 + axis], out_extent = record[5 + axis];
        const float64 lo = array<float64>(context, 3)[6 * sample + 2 * axis], hi = array<float64>(context, 3)[6 * sample + 2 * axis + 1];
        const int64 kind = out_extent < (hi < lo ? lo - hi : hi - lo) ? record[8] : record[9];
        const int32 *description = array<int32>(context, 5) + 3 * kind;
        const int64 *where = array<int64>(context, 6) + 9 * sample + 3 * axis;
        const int64 count = where[2];
        int32 *first = at<int32>(context[7]) + where[0];
        float32 *weights = at<float32>(context[7]) + where[1];
        if (kind == NN) {
            fill_nearest(extent, out_extent, lo, hi, axis != 2, first, weights);
            continue;
        }
        const float32 *table = array<float32>(context, 4) + description[0];
        const int32 entries = description[1];
        const float32 scale = (float32)(hi - lo) / (float32)out_extent;
        const float32 span = (float32)(hi < lo ? lo - hi : hi - lo) / (float32)out_extent;
        const float32 widen = record[10] && span > 1 ? span : 1.0f;
        const float32 origin = (float32)lo, reach = (float32)description[2] * widen;
        const float32 before = kind == GAUSSIAN ? gaussian_reach(reach) : reach;
        const float32 begin = origin + (0.5f * scale - 0.5f - before);
        const int64 window = (int64)ceilf(2.0f * reach);
        const float32 steps = (float32)(entries - 1) / (2.0f * reach);
        const float32 last = (float32)(entries + 1);
        for (int64 i = threadIdx.x; i < out_extent; i += blockDim.x) {
            const float32 center = origin + ((float32)i + 0.5f) * scale - 0.5f;
            const int64 start = (int64)ceilf((float32)i * scale + begin);
            const int64 base = smaller(larger(start, (int64)0), extent - count);
            first[i] = (int32)base;
            float32 *row = weights + i * count;
            for (int64 k = 0; k < count; ++k) row[k] = 0;
            float32 total = 0;
            for (int64 k = 0; k < window; ++k) {
                const int64 source = start + k;
                float32 position = ((float32)source - center + reach) * steps + 1.0f;
                position = smaller(larger(position, 0.0f), last);
                const int32 cell = smaller((int32)position, entries);
                const float32 part = position - (float32)cell;
                const float32 weight = table[cell] + (table[cell + 1] - table[cell]) * part;
                total += weight;
                row[smaller(larger(source, (int64)0), extent - 1) - base] += weight;
            }
            total = 1.0f / total;
            for (int64 k = 0; k < count; ++k) row[k] *= total;
        }
    }
}

#if CHANNELS && !VOLUME
struct StorePixels {
    OUT *corner;
    int32 width;

    struct Column {
        OUT *to;
        int32 line;
        DEVICE_MEMBER void operator()(const float32 *total) {
            for (int32 c = 0; c < GROUP; ++c) to[c] = stored<OUT>(total[c]);
            to += line;
        }
    };
    DEVICE_MEMBER Column column(int32 number) const { return {corner + number * GROUP, width * GROUP}; }
};
#endif

KERNEL resize(const int64 *context) {
    FOR_SAMPLES(sample, context[8]) {
        const int64 *record = array<int64>(context, 2) + 11 * sample;
        const int64 *axes = array<int64>(context, 6) + 9 * sample;
        const int64 depth = record[5], height = record[6], width = record[7];
        const int64 channels = CHANNELS ? CHANNELS : record[4];
        const int64 row_size = record[3] * channels, plane_size = record[2] * row_size;
        if (plane_size * record[1] == 0) continue;
        OUT *out = at<OUT>(address(context, 1, sample));
#if VOLUME
        const int32 lanes = lanes_of(width);
        const IN *source = at<const IN>(address(context, 0, sample));
        const float32 *weights = array<float32>(context, 7);
        const int32 *firsts = array<int32>(context, 7);
        const int32 taps_z = (int32)axes[2], taps_y = (int32)axes[5], taps_x = (int32)axes[8];
        FOR_ROWS(row, record[0] * depth * height, lanes) {
            int64 rest = row;
            const int64 y = take(rest, height), z = take(rest, depth);
            const float32 *wz = weights + axes[1] + z * taps_z, *wy = weights + axes[4] + y * taps_y;
            const IN *line = source + (rest * record[1] + firsts[axes[0] + z]) * plane_size + firsts[axes[3] + y] * row_size;
            FOR_COLUMNS(x, width, lanes) {
                const float32 *wx = weights + axes[7] + (int64)x * taps_x;
                for (int64 c = 0; c < channels; ++c) {
                    const IN *corner = line + firsts[axes[6] + x] * channels + c;
                    float32 total = 0;
                    for (int32 kx = 0; kx < taps_x; ++kx) {
                        float32 column = 0;
                        for (int32 ky = 0; ky < taps_y; ++ky) {
                            float32 value = 0;
                            for (int32 kz = 0; kz < taps_z; ++kz) {
                                value = fmaf(wz[kz], real(corner[kz * plane_size + ky * row_size + kx * channels]), value);
                            }
                            column = fmaf(wy[ky], value, column);
                        }
                        total = fmaf(wx[kx], column, total);
                    }
                    out[(row * width + x) * channels + c] = stored<OUT>(total);
                }
            }
        }
#else
        const int64 planes = record[0] * depth;
#if CHANNELS
        __shared__ ResizedPicture<IN> picture;
        if (threadIdx.x == 0) picture.look_up(context, sample);
        __syncthreads();
        const int32 tiles_x = ((int32)width + picture.tile_columns - 1) / picture.tile_columns;
        const int32 tiles_y = (int32)((height + TILE_ROWS - 1) / TILE_ROWS);
        const auto find = [&](int32 tile, Tile<IN> &part, StorePixels &store) {
            const int32 x = tile % tiles_x * picture.tile_columns, y = tile / tiles_x % tiles_y * TILE_ROWS, plane = tile / tiles_x / tiles_y;
            part.source = picture.plane(plane), part.y = y, part.x = x;
            part.rows = smaller((int32)TILE_ROWS, (int32)height - y), part.columns = smaller(picture.tile_columns, (int32)width - x);
            store.corner = out + ((plane * height + y) * width + x) * channels, store.width = (int32)width;
        };
        resized_tiles<StorePixels>(picture, (int32)planes * tiles_y * tiles_x, find, [](const StorePixels &) {});
#else
        ResizedPicture<IN> picture;
        picture.look_up(context, sample);
        const int32 lanes = lanes_of(width);
        FOR_ROWS(row, planes * height, lanes) {
            int64 plane = row;
            const int32 y = (int32)take(plane, height);
            const IN *from = picture.plane(plane);
            OUT *to = out + row * width * channels;
            FOR_COLUMNS(x, width, lanes) {
                for (int32 c = 0; c < channels; c += GROUP) {
                    float32 total[GROUP];
                    const int32 used = smaller((int32)GROUP, (int32)channels - c);
                    picture.pixel(from, x, y, c, used, total);
                    for (int32 k = 0; k < used; ++k) to[x * (int32)channels + c + k] = stored<OUT>(total[k]);
                }
            }
        }
#endif
#endif
    }
}

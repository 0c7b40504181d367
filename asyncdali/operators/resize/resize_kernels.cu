// resize: separable resampling. `taps` computes the tap tables of every axis, `resize` computes the pixels. The formulas and the order of
// rounding are those of resize_kernels.py and resize_tap_kernels.py.
//
// Macros: IN, OUT element types; VOLUME 1: depth is resampled; CHANNELS: number of channels of all samples, 0 if samples differ; SIGNED 1:
// weights may be negative.
#define RESIDENT 4
#include "kernel.cuh"
#include "resize_tables.py"
#include "resize.cuh"

enum { NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN };

DEVICE float32 gaussian_reach(float32 reach) {
    const float32 sigma = (float32)((float64)(0.5f * reach) / 1.4142135623730951);
    const float32 support = 5.656854249492381f * sigma;
    return 32.0f / (64.0f / support);
}

// Number of source pixels that DALI reads along an axis for the source interval `lo` to `hi`.
DEVICE int64 touched_by(int64 extent, float64 lo, float64 hi) {
    const float64 end = smaller(larger(ceil(larger(lo, hi)) + 1, 0.0), (float64)extent);
    return (int64)(end - smaller(larger(floor(smaller(lo, hi)), 0.0), (float64)extent));
}

// The axis whose nearest pixels are computed relative to pixel 0, as in resize_tap_kernels.py. Other axes count from the start of the source
// interval. The result is -1 unless all axes use nearest pixels.
DEVICE int64 axis_from_zero(const int64 *record, const float64 *intervals) {
    int64 touched[3], out[3];
    for (int axis = 0; axis < 3; ++axis) {
        const float64 lo = intervals[INTERVAL_WORDS * axis + INTERVAL_LO], hi = intervals[INTERVAL_WORDS * axis + INTERVAL_HI];
        out[axis] = record[RESIZE_RECORD_OUT_DEPTH + axis];
        const bool less = out[axis] < (hi < lo ? lo - hi : hi - lo);
        if (record[less ? RESIZE_RECORD_MIN_FILTER : RESIZE_RECORD_MAG_FILTER] != NN) return -1;
        touched[axis] = touched_by(record[RESIZE_RECORD_IN_DEPTH + axis], lo, hi);
    }
    const int64 area = out[1] * out[2];
    if (record[RESIZE_RECORD_IN_DEPTH] == 1 && out[0] == 1) return 20 * out[1] * touched[2] + 22 * area < 22 * touched[1] * out[2] + 20 * area ? 1 : 2;
    int64 found = 2, least = -1;
    for (int a = 2; a >= 0; --a)
        for (int b = 2; b >= 0; --b) {
            if (a == b) continue;
            const int order[3] = {a, b, 3 - a - b};
            int64 cost = 0, extents[3] = {touched[0], touched[1], touched[2]};
            for (int step = 0; step < 3; ++step) {
                const int axis = order[step];
                extents[axis] = out[axis];
                cost += (axis == 0 ? 21 : axis == 1 ? 20 : 22) * extents[0] * extents[1] * extents[2];
            }
            if (least < 0 || cost < least) {
                found = a;
                least = cost;
            }
        }
    return found;
}

DEVICE void fill_nearest(int64 extent, int64 out_extent, float64 lo, float64 hi, bool running, bool whole, int32 *first, float32 *weights) {
    const float32 scale = (float32)(hi - lo) / (float32)out_extent;
    const int64 begin = whole ? 0 : larger((int64)floor(smaller(lo, hi)), (int64)0);
    const float32 origin = (float32)(lo - begin);
    if (!running) {
        for (int64 i = threadIdx.x; i < out_extent; i += blockDim.x) {
            const float32 center = origin + ((float32)i + 0.5f) * scale;
            first[i] = (int32)smaller(larger(begin + (int64)floorf(center), (int64)0), extent - 1);
            weights[i] = 1;
        }
        return;
    }
    if (threadIdx.x) return;  // one thread computes the running sum, because each addition rounds
    float32 center = origin + 0.5f * scale;
    for (int64 i = 0; i < out_extent; ++i) {
        first[i] = (int32)smaller(larger(begin + (int64)floorf(center), (int64)0), extent - 1);
        weights[i] = 1;
        center += scale;
    }
}

KERNEL taps(const int64 *context) {
    FOR_SAMPLES(sample, context[RESIZE_CUDA_SAMPLES]) {
        const int64 axis = blockIdx.x;
        const int64 *record = array<int64>(context, RESIZE_CUDA_RECORDS) + RESIZE_RECORD_WORDS * sample;
        const int64 extent = record[RESIZE_RECORD_IN_DEPTH + axis], out_extent = record[RESIZE_RECORD_OUT_DEPTH + axis];
        const float64 *interval = array<float64>(context, RESIZE_CUDA_INTERVALS) + INTERVAL_WORDS * (3 * sample + axis);
        const float64 lo = interval[INTERVAL_LO], hi = interval[INTERVAL_HI];
        const int64 kind = out_extent < (hi < lo ? lo - hi : hi - lo) ? record[RESIZE_RECORD_MIN_FILTER] : record[RESIZE_RECORD_MAG_FILTER];
        const int64 *filter = array<int64>(context, RESIZE_CUDA_DESCRIPTIONS) + FILTER_WORDS * kind;
        const int64 *axis_taps = array<int64>(context, RESIZE_CUDA_PLACES) + PLACES_WORDS * sample + TAPS_WORDS * axis;
        const int64 count = axis_taps[TAPS_COUNT];
        int32 *first = at<int32>(context[RESIZE_CUDA_TAPS]) + axis_taps[TAPS_FIRST];
        float32 *weights = at<float32>(context[RESIZE_CUDA_TAPS]) + axis_taps[TAPS_WEIGHTS];
        const WeightSteps apart = axis == 2 ? weight_steps(count, out_extent) : WeightSteps{(int32)count, 1};
        if (kind == NN) {
            const bool whole = axis == axis_from_zero(record, interval - INTERVAL_WORDS * axis);
            fill_nearest(extent, out_extent, lo, hi, axis != 2, whole, first, weights);
            continue;
        }
        const float32 *table = array<float32>(context, RESIZE_CUDA_FILTERS) + filter[FILTER_OFFSET];
        const int32 entries = (int32)filter[FILTER_ENTRIES];
        const float32 scale = (float32)(hi - lo) / (float32)out_extent;
        const float32 span = (float32)(hi < lo ? lo - hi : hi - lo) / (float32)out_extent;
        const float32 radius = (float32)filter[FILTER_RADIUS], widest = 0.5f * 8192.0f / radius;  // WIDEST in resize_tap_kernels.py
        const float32 widen = record[RESIZE_RECORD_ANTIALIAS] && span > 1 ? smaller(span, widest) : 1.0f;
        const float32 origin = (float32)lo, reach = radius * widen;
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
            float32 *row = weights + i * apart.from_column;
            const int64 step = apart.from_tap;
            for (int64 k = 0; k < count; ++k) row[k * step] = 0;
            float32 total = 0;
            for (int64 k = 0; k < window; ++k) {
                const int64 source = start + k;
                float32 position = ((float32)source - center + reach) * steps + 1.0f;
                position = smaller(larger(position, 0.0f), last);
                const int32 cell = smaller((int32)position, entries);
                const float32 part = position - (float32)cell;
                const float32 weight = table[cell] + (table[cell + 1] - table[cell]) * part;
                total += weight;
                row[(smaller(larger(source, (int64)0), extent - 1) - base) * step] += weight;
            }
            total = 1.0f / total;
            for (int64 k = 0; k < count; ++k) row[k * step] *= total;
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
        DEVICE_MEMBER void skip(int32 rows) { to += rows * line; }
    };
    DEVICE_MEMBER Column column(int32 number) const { return {corner + number * GROUP, width * GROUP}; }
};
#endif

KERNEL resize(const int64 *context) {
    FOR_SAMPLES(sample, context[RESIZE_CUDA_SAMPLES]) {
        const int64 *record = array<int64>(context, RESIZE_CUDA_RECORDS) + RESIZE_RECORD_WORDS * sample;
        const int64 *places = array<int64>(context, RESIZE_CUDA_PLACES) + PLACES_WORDS * sample;
        const int64 depth = record[RESIZE_RECORD_OUT_DEPTH], height = record[RESIZE_RECORD_OUT_HEIGHT], width = record[RESIZE_RECORD_OUT_WIDTH];
        const int64 channels = CHANNELS ? CHANNELS : record[RESIZE_RECORD_CHANNELS];
        const int64 row_size = record[RESIZE_RECORD_IN_WIDTH] * channels, plane_size = record[RESIZE_RECORD_IN_HEIGHT] * row_size;
        if (plane_size * record[RESIZE_RECORD_IN_DEPTH] == 0) continue;
        OUT *out = at<OUT>(address(context, RESIZE_CUDA_OUTPUTS, sample));
#if VOLUME
        const int32 lanes = lanes_of(width);
        const WeightSteps steps_x = weight_steps(places[PLACES_WIDTH_COUNT], width);
        const IN *source = at<const IN>(address(context, RESIZE_CUDA_INPUTS, sample));
        const float32 *weights = array<float32>(context, RESIZE_CUDA_TAPS);
        const int32 *firsts = array<int32>(context, RESIZE_CUDA_TAPS);
        const int32 taps_z = (int32)places[PLACES_DEPTH_COUNT], taps_y = (int32)places[PLACES_HEIGHT_COUNT], taps_x = (int32)places[PLACES_WIDTH_COUNT];
        FOR_ROWS(row, record[RESIZE_RECORD_OUTER] * depth * height, lanes) {
            int64 rest = row;
            const int64 y = take(rest, height), z = take(rest, depth);
            const float32 *wz = weights + places[PLACES_DEPTH_WEIGHTS] + z * taps_z, *wy = weights + places[PLACES_HEIGHT_WEIGHTS] + y * taps_y;
            const IN *line = source + (rest * record[RESIZE_RECORD_IN_DEPTH] + firsts[places[PLACES_DEPTH_FIRST] + z]) * plane_size + firsts[places[PLACES_HEIGHT_FIRST] + y] * row_size;
            FOR_COLUMNS(x, width, lanes) {
                const float32 *wx = weights + places[PLACES_WIDTH_WEIGHTS] + (int64)x * steps_x.from_column;
                for (int64 c = 0; c < channels; ++c) {
                    const IN *corner = line + firsts[places[PLACES_WIDTH_FIRST] + x] * channels + c;
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
                        total = fmaf(wx[(int64)kx * steps_x.from_tap], column, total);
                    }
                    out[(row * width + x) * channels + c] = stored<OUT>(total);
                }
            }
        }
#else
        const int64 planes = record[RESIZE_RECORD_OUTER] * depth;
#if CHANNELS
        __shared__ ResizedPicture<IN> picture;
        if (threadIdx.x == 0) picture.look_up(context, sample);
        __syncthreads();
        const int32 tiles_x = ((int32)width + picture.tile_columns - 1) / picture.tile_columns;
        const int32 tiles_y = (int32)((height + picture.tile_rows - 1) / picture.tile_rows);
        const auto find = [&](int32 tile, Tile<IN> &part, StorePixels &store) {
            const int32 x = tile % tiles_x * picture.tile_columns, y = tile / tiles_x % tiles_y * picture.tile_rows, plane = tile / tiles_x / tiles_y;
            part.source = picture.plane(plane), part.y = y, part.x = x;
            part.rows = smaller(picture.tile_rows, (int32)height - y), part.columns = smaller(picture.tile_columns, (int32)width - x);
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

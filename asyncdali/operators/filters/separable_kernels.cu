// Separable filters: a window along each data axis, sums of several such filters. Sums are made as in separable_kernels.py: in the order of
// the taps, one rounding each; pixels outside are reflected about the border pixel.
// Macros: IN, OUT element types; ROWS rows of intermediate results that a block of `tile` keeps, at least TILE + taps - 1 along the height.
// Table (separable_launches.py): 0 input addresses, 1 output addresses, 2 records int64[samples, 5] (planes, depth, height, width, channels),
// 3 windows int64[samples, terms, 3, 2] (depth, height, width: first weight, taps), 4 weights, 5 factors float32[samples, terms], 6 terms,
// 7 samples; of `line` also 8 where intermediate results come from (0: the input), 9 where they go (0: the result), 10 sums of terms,
// 11 int64[samples] elements of the samples before, 12 axis (0 depth, 1 height, 2 width), 13 term.
#include "borders.cuh"

#define TILE 32
#define LANES 64
#define EACH (TILE * LANES / 256)

// The sum over a window about position `index` of `extent`, `stride` elements apart; `source` is element 0.
template <class T>
DEVICE float32 windowed(const T *source, int64 stride, int64 index, int64 extent, const float32 *weights, int32 taps) {
    const int64 first = index - taps / 2;
    float32 total = 0;
    if (first >= 0 && first + taps <= extent) {
        source += first * stride;
        total = weights[0] * real(value_of(*source));
        for (int32 k = 1; k < taps; ++k) {
            source += stride;
            total += weights[k] * real(value_of(*source));
        }
    } else {
        for (int32 k = 0; k < taps; ++k) {
            const float32 part = weights[k] * real(value_of(source[reflected(first + k, extent) * stride]));
            total = k ? total + part : part;
        }
    }
    return total;
}

// Images: a block filters a tile along its width into shared memory, and from there along its height.
KERNEL tile(const int64 *context) {
    __shared__ float32 rows[ROWS * LANES];
    const int64 terms = context[6];
    const int32 lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = blockDim.x / LANES;
    FOR_SAMPLES(sample, context[7]) {
        const int64 *r = array<int64>(context, 2) + 5 * sample;
        const int64 height = r[2], width = r[3], channels = r[4], row = width * channels;
        const int64 across = (row + LANES - 1) / LANES, down = (height + TILE - 1) / TILE;
        for (int64 item = blockIdx.x; item < r[0] * across * down; item += gridDim.x) {
            int64 rest = item;
            const int64 column = take(rest, across) * LANES + lane, top = take(rest, down) * TILE, plane = rest;
            const int64 x = column / channels, channel = column % channels;
            const IN *source = at<const IN>(address(context, 0, sample)) + plane * height * row + channel;
            OUT *out = at<OUT>(address(context, 1, sample)) + plane * height * row + column;
            float32 sums[EACH];
            for (int64 term = 0; term < terms; ++term) {
                const int64 *w = array<int64>(context, 3) + 6 * (terms * sample + term);
                const float32 factor = array<float32>(context, 5)[terms * sample + term];
                const float32 *down_weights = array<float32>(context, 4) + w[2], *across_weights = array<float32>(context, 4) + w[4];
                const int32 taps = (int32)w[3], half = taps / 2;
                const int32 needed = (int32)smaller((int64)TILE, height - top) + 2 * half;
                for (int32 k = group; k < needed; k += groups) {
                    const int64 y = reflected(top + k - half, height);
                    if (column < row) rows[k * LANES + lane] = windowed(source + y * row, channels, x, width, across_weights, (int32)w[5]);
                }
                __syncthreads();
                #pragma unroll
                for (int32 j = 0; j < EACH; ++j) {
                    const int32 first = j * groups + group;
                    if (column < row && top + first < height) {
                        float32 total = down_weights[0] * rows[first * LANES + lane];
                        for (int32 k = 1; k < taps; ++k) total += down_weights[k] * rows[(first + k) * LANES + lane];
                        if (terms > 1 || factor != 1) total *= factor;
                        sums[j] = term ? sums[j] + total : total;
                    }
                }
                __syncthreads();
            }
            #pragma unroll
            for (int32 j = 0; j < EACH; ++j) {
                const int64 y = top + j * groups + group;
                if (column < row && y < height) out[y * row] = convert<OUT>(sums[j]);
            }
        }
    }
}

// Volumes and wide windows: one axis of all samples at a time.
KERNEL line(const int64 *context) {
    const int64 terms = context[6], axis = context[12], term = context[13];
    FOR_SAMPLES(sample, context[7]) {
        const int64 *r = array<int64>(context, 2) + 5 * sample, *w = array<int64>(context, 3) + 6 * (terms * sample + term) + 2 * axis;
        const int64 extent = r[1 + axis], before = address(context, 11, sample);
        const int64 stride = axis == 2 ? r[4] : axis == 1 ? r[4] * r[3] : r[4] * r[3] * r[2];
        const float32 *weights = array<float32>(context, 4) + w[0], factor = array<float32>(context, 5)[terms * sample + term];
        const int32 taps = (int32)w[1];
        const IN *pixels = at<const IN>(address(context, 0, sample));
        const float32 *numbers = array<float32>(context, 8) + before;
        FOR_ITEMS(i, r[0] * r[1] * r[2] * r[3] * r[4]) {
            int64 rest = i;
            const int64 inside = take(rest, stride), index = take(rest, extent), begin = rest * extent * stride + inside;
            float32 total = context[8] ? windowed(numbers + begin, stride, index, extent, weights, taps)
                                       : windowed(pixels + begin, stride, index, extent, weights, taps);
            if (context[9]) {
                at<float32>(context[9])[before + i] = total;
                continue;
            }
            if (terms > 1 || factor != 1) total *= factor;
            if (terms > 1) {
                float32 *sum = at<float32>(context[10]) + before + i;
                total = term ? *sum + total : total;
                *sum = total;
            }
            if (term == terms - 1) at<OUT>(address(context, 1, sample))[i] = convert<OUT>(total);
        }
    }
}

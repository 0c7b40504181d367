// Separable filters: one window along each data axis, or a sum of several such filters (terms). As in gaussian_blur_kernels.py, products are
// added in the order of the taps, each addition rounds, and pixels outside are reflected about the border pixel.
// Macros: IN, OUT element types; ROWS: rows of intermediate results in a block of `tile`, at least TILE + taps of the height - 1.
#include "borders.cuh"
#include "planes_tables.py"
#include "gaussian_blur_tables.py"

#define TILE 32
#define LANES 64
#define EACH (TILE * LANES / 256)

// The weighted sum over the window centred at element `index`. The axis has `extent` elements, `stride` apart; `source` is element 0.
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

// Images: a block filters a tile along its width into shared memory, then along its height.
KERNEL tile(const int64 *context) {
    __shared__ float32 rows[ROWS * LANES];
    const int64 terms = context[SEPARABLE_TILE_TERMS];
    const int32 lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = blockDim.x / LANES;
    FOR_SAMPLES(sample, context[SEPARABLE_TILE_SAMPLES]) {
        const int64 *r = array<int64>(context, SEPARABLE_TILE_RECORDS) + PLANES_WORDS * sample;
        const int64 height = r[PLANES_IN_HEIGHT], width = r[PLANES_IN_WIDTH], channels = r[PLANES_CHANNELS], row = width * channels;
        const int64 across = (row + LANES - 1) / LANES, down = (height + TILE - 1) / TILE;
        for (int64 item = blockIdx.x; item < r[PLANES_PLANES] * across * down; item += gridDim.x) {
            int64 rest = item;
            const int64 column = take(rest, across) * LANES + lane, top = take(rest, down) * TILE, plane = rest;
            const int64 x = column / channels, channel = column % channels;
            const IN *source = at<const IN>(address(context, SEPARABLE_TILE_INPUTS, sample)) + plane * height * row + channel;
            OUT *out = at<OUT>(address(context, SEPARABLE_TILE_OUTPUTS, sample)) + plane * height * row + column;
            float32 sums[EACH];
            for (int64 term = 0; term < terms; ++term) {
                const int64 *w = array<int64>(context, SEPARABLE_TILE_WINDOWS) + WINDOWS_WORDS * (terms * sample + term);
                const float32 factor = array<float32>(context, SEPARABLE_TILE_FACTORS)[terms * sample + term];
                const float32 *down_weights = array<float32>(context, SEPARABLE_TILE_WEIGHTS) + w[WINDOWS_HEIGHT_WEIGHTS], *across_weights = array<float32>(context, SEPARABLE_TILE_WEIGHTS) + w[WINDOWS_WIDTH_WEIGHTS];
                const int32 taps = (int32)w[WINDOWS_HEIGHT_TAPS], half = taps / 2;
                const int32 needed = (int32)smaller((int64)TILE, height - top) + 2 * half;
                for (int32 k = group; k < needed; k += groups) {
                    const int64 y = reflected(top + k - half, height);
                    if (column < row) rows[k * LANES + lane] = windowed(source + y * row, channels, x, width, across_weights, (int32)w[WINDOWS_WIDTH_TAPS]);
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

// Volumes and wide windows: a launch filters one axis of all samples.
KERNEL line(const int64 *context) {
    const int64 terms = context[SEPARABLE_LINE_TERMS], axis = context[SEPARABLE_LINE_AXIS], term = context[SEPARABLE_LINE_TERM];
    FOR_SAMPLES(sample, context[SEPARABLE_LINE_SAMPLES]) {
        const int64 *r = array<int64>(context, SEPARABLE_LINE_RECORDS) + PLANES_WORDS * sample, *w = array<int64>(context, SEPARABLE_LINE_WINDOWS) + WINDOWS_WORDS * (terms * sample + term) + WINDOW_WORDS * axis;
        const int64 extent = r[PLANES_IN_DEPTH + axis], before = address(context, SEPARABLE_LINE_BEFORE, sample);
        const int64 stride = axis == 2 ? r[PLANES_CHANNELS] : axis == 1 ? r[PLANES_CHANNELS] * r[PLANES_IN_WIDTH] : r[PLANES_CHANNELS] * r[PLANES_IN_WIDTH] * r[PLANES_IN_HEIGHT];
        const float32 *weights = array<float32>(context, SEPARABLE_LINE_WEIGHTS) + w[WINDOW_WEIGHTS], factor = array<float32>(context, SEPARABLE_LINE_FACTORS)[terms * sample + term];
        const int32 taps = (int32)w[WINDOW_TAPS];
        const IN *pixels = at<const IN>(address(context, SEPARABLE_LINE_INPUTS, sample));
        const float32 *numbers = array<float32>(context, SEPARABLE_LINE_SOURCE) + before;
        FOR_ITEMS(i, r[PLANES_PLANES] * r[PLANES_IN_DEPTH] * r[PLANES_IN_HEIGHT] * r[PLANES_IN_WIDTH] * r[PLANES_CHANNELS]) {
            int64 rest = i;
            const int64 inside = take(rest, stride), index = take(rest, extent), begin = rest * extent * stride + inside;
            float32 total = context[SEPARABLE_LINE_SOURCE] ? windowed(numbers + begin, stride, index, extent, weights, taps)
                                       : windowed(pixels + begin, stride, index, extent, weights, taps);
            if (context[SEPARABLE_LINE_TARGET]) {
                at<float32>(context[SEPARABLE_LINE_TARGET])[before + i] = total;
                continue;
            }
            if (terms > 1 || factor != 1) total *= factor;
            if (terms > 1) {
                float32 *sum = at<float32>(context[SEPARABLE_LINE_SUMS]) + before + i;
                total = term ? *sum + total : total;
                *sum = total;
            }
            if (term == terms - 1) at<OUT>(address(context, SEPARABLE_LINE_OUTPUTS, sample))[i] = convert<OUT>(total);
        }
    }
}

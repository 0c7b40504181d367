// Reductions over contiguous pixels that keep the innermost axis, the channels. One pass over memory, in lines of 16 bytes, computes all
// channels. The macros are those of reduction.cuh, and CHANNELS (1 to 4).
// Without a limit, squared distances (KIND 2) take 135 registers, and a multiprocessor runs one block at a time.
#define RESIDENT (KIND == 2 ? 3 : 4)
#include "../../device/lines.cuh"
#include "reduction.cuh"

#define EACH (LINE / (int32)sizeof(IN))  // pixels per thread: CHANNELS lines

// Bytes are summed exactly in 32-bit integers, EACH at a time. A float64 addition for each byte would take four times as long.
static constexpr bool in_words = KIND < 2 && sizeof(IN) == 1;
static constexpr bool distances_in_words = KIND == 2 && sizeof(IN) == 1;

// The sum of (x - mean)^2 over EACH bytes, from the sums of x and of x^2. Distances from the nearest integer are summed exactly, so the
// result is never negative: if a byte differs from that integer, the sum is at least 1/4.
DEVICE float64 squared_distances(int32 sum, int32 squares, float32 mean) {
    const int32 near = (int32)floorf(mean + 0.5f);
    const float64 rest = (float64)mean - (float64)near;
    const int32 distance = sum - EACH * near, square = squares - near * (2 * sum - EACH * near);
    return (float64)square - rest * (2.0 * (float64)distance - (float64)EACH * rest);
}

// Merge the elements of EACH pixels into the totals of their channels.
DEVICE void merge_line(const IN *element, const float32 *mean, Total *total) {
    if constexpr (distances_in_words) {
        bool usual = true;  // 32 bits suffice
        #pragma unroll
        for (int32 c = 0; c < CHANNELS; ++c) usual = usual && magnitude(mean[c]) < 4096.0f;
        if (usual) {
            int32 sum[CHANNELS] = {}, squares[CHANNELS] = {};
            #pragma unroll
            for (int32 e = 0; e < CHANNELS * EACH; ++e) {
                const int32 value = element[e];
                sum[e % CHANNELS] += value, squares[e % CHANNELS] += value * value;
            }
            #pragma unroll
            for (int32 c = 0; c < CHANNELS; ++c) total[c] += squared_distances(sum[c], squares[c], mean[c]);
            return;
        }
    }
    if constexpr (in_words) {
        int32 sum[CHANNELS] = {};
        #pragma unroll
        for (int32 e = 0; e < CHANNELS * EACH; ++e) sum[e % CHANNELS] += KIND ? (int32)element[e] * (int32)element[e] : (int32)element[e];
        #pragma unroll
        for (int32 c = 0; c < CHANNELS; ++c) total[c] = merged(total[c], (Total)sum[c]);
    } else {
        #pragma unroll
        for (int32 e = 0; e < CHANNELS * EACH; ++e) total[e % CHANNELS] = merged(total[e % CHANNELS], counted(element[e], mean[e % CHANNELS]));
    }
}

// The totals over all threads of a block, in totals[...][0], added in the order of total_of_block.
DEVICE void totals_of_block(Total (*totals)[256], const Total *mine) {
    #pragma unroll
    for (int32 c = 0; c < CHANNELS; ++c) totals[c][threadIdx.x] = mine[c];
    __syncthreads();
    for (int32 half = blockDim.x / 2; half > 0; half /= 2) {
        if ((int32)threadIdx.x < half) {
            #pragma unroll
            for (int32 c = 0; c < CHANNELS; ++c) totals[c][threadIdx.x] = merged(totals[c][threadIdx.x], totals[c][threadIdx.x + half]);
        }
        __syncthreads();
    }
}

// One block per part of a plane of pixels.
KERNEL channels(const int64 *context) {
    __shared__ Total totals[CHANNELS][256];
    const int64 parts = context[REDUCTION_PARTS];
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        Total *out = at<Total>(context[REDUCTION_PARTIALS]) + address(context, REDUCTION_FIRST, number) * parts;
        const int64 length = ((sample.volume + parts - 1) / parts + EACH - 1) / EACH * EACH;
        for (int64 item = blockIdx.x; item < sample.outputs / CHANNELS * parts; item += gridDim.x) {
            const int64 output = item / parts * CHANNELS, part = item % parts, first = part * length, last = smaller(first + length, sample.volume);
            const int64 source = sample.source + offset(sample.kept, context[REDUCTION_KEPT], output);
            Total total[CHANNELS];
            float32 mean[CHANNELS];
            #pragma unroll
            for (int32 c = 0; c < CHANNELS; ++c) total[c] = start(), mean[c] = mean_of(sample, output + c);
            for (int64 i = first + EACH * (int32)threadIdx.x; i < last; i += EACH * (int32)blockDim.x) {
                const int64 from = source + i * CHANNELS * (int64)sizeof(IN);
                if (i + EACH <= last) {
                    union { Line line[CHANNELS]; IN element[CHANNELS * EACH]; } given;
                    #pragma unroll
                    for (int32 c = 0; c < CHANNELS; ++c) given.line[c] = load_line(from + LINE * c);
                    merge_line(given.element, mean, total);
                    continue;
                }
                for (int32 e = 0; e < (int32)(last - i) * CHANNELS; e += CHANNELS) {
                    #pragma unroll
                    for (int32 c = 0; c < CHANNELS; ++c) total[c] = merged(total[c], counted(at<const IN>(from)[e + c], mean[c]));
                }
            }
            totals_of_block(totals, total);
            if (threadIdx.x < CHANNELS) out[(output + threadIdx.x) * parts + part] = totals[threadIdx.x][0];
            __syncthreads();
        }
    }
}

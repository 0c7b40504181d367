// equalize: a block of threads computes the histogram of a plane, and then the look-up table, in shared memory (equalize_kernels.py).
#include "kernel.cuh"
#include "color_tables.py"

#define VALUES 256

#ifdef HOST_BUILD
DEVICE void count_one(uint64 &counter) { ++counter; }  // the C++ build runs threads one after another: no atomic operation
#else
DEVICE void count_one(uint64 &counter) { atomicAdd(&counter, 1ull); }
#endif

// The look-up table: each value maps to its rank among the elements, scaled to 0..255. A plane of a single value is unchanged.
DEVICE void fill_table(const uint64 *histogram, uint8 *table, int64 count) {
    int value = 0;
    while (!histogram[value]) ++value;
    const int64 others = count - (int64)histogram[value];
    table[value] = others ? 0 : (uint8)value;
    const float32 scale = 255.0f / (float32)others;
    int64 before = 0;
    for (int k = value + 1; others && k < VALUES; ++k) {
        before += (int64)histogram[k];
        table[k] = (uint8)rintf((float32)before * scale);
    }
}

KERNEL equalize(const int64 *context) {
    __shared__ uint64 histogram[VALUES];
    __shared__ uint8 table[VALUES];
    FOR_SAMPLES(sample, context[EQUALIZE_SAMPLES]) {
        const int64 *r = array<int64>(context, EQUALIZE_RECORDS) + EQUALIZE_RECORD_WORDS * sample;
        const int64 planes = r[EQUALIZE_RECORD_PLANES], pixels = r[EQUALIZE_RECORD_PIXELS];
        if (!pixels) continue;
        for (int64 k = blockIdx.x; k < r[EQUALIZE_RECORD_GROUPS] * planes; k += gridDim.x) {
            const int64 begin = k / planes * planes * pixels + k % planes;
            const uint8 *source = at<const uint8>(address(context, EQUALIZE_INPUTS, sample)) + begin;
            uint8 *out = at<uint8>(address(context, EQUALIZE_OUTPUTS, sample)) + begin;
            for (int value = threadIdx.x; value < VALUES; value += blockDim.x) histogram[value] = 0;
            __syncthreads();
            for (int64 i = threadIdx.x; i < pixels; i += blockDim.x) count_one(histogram[source[i * planes]]);
            __syncthreads();
            if (threadIdx.x == 0) fill_table(histogram, table, pixels);
            __syncthreads();
            for (int64 i = threadIdx.x; i < pixels; i += blockDim.x) out[i * planes] = table[source[i * planes]];
            __syncthreads();
        }
    }
}

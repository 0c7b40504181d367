// Reductions of pixels over their channels, for pixels that follow each other. A thread computes PACK pixels: one pixel at a time would have
// too few loads in flight, and would look up its sample's fields for each. The macros are those of reduction.cuh, and CHANNELS (2 to 4).
#include "reduction.cuh"

KERNEL pixels(const int64 *context) {
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        const int64 out = place(context, REDUCTION_OUT_ADDRESSES, number), count = sample.outputs;
        FOR_PACKS(i, OUT, out, count) {
            union { Pack<IN> pack[CHANNELS]; IN element[CHANNELS * PACK]; } given;
            #pragma unroll
            for (int32 c = 0; c < CHANNELS; ++c) given.pack[c] = row_pack<IN>(sample.source, 1, CHANNELS * i + PACK * c, CHANNELS * count);
            Pack<OUT> made;
            #pragma unroll
            for (int32 j = 0; j < PACK; ++j) {
                const float32 mean = 0 <= i + j && i + j < count ? mean_of(sample, i + j) : 0;
                Total total = start();
                #pragma unroll
                for (int32 c = 0; c < CHANNELS; ++c) total = merged(total, counted(given.element[CHANNELS * j + c], mean));
                made.element[j] = finished(context, sample, total);
            }
            put(out, i, count, made);
        }
    }
}

// Reductions over any axes. The macros are those of reduction.cuh.
#include "reduction.cuh"

// This thread's share of the elements [first, last) of one output. `threads` threads take packs of four elements in turn.
DEVICE Total summed(const int64 *context, const Sample &sample, int64 output, int64 first, int64 last, int64 thread, int64 threads) {
    const int64 reduced = context[REDUCTION_REDUCED], source = sample.source + offset(sample.kept, context[REDUCTION_KEPT], output);
    const float32 mean = mean_of(sample, output);
    const bool dense = reduced == 1 && sample.reduced[reduced] == (int64)sizeof(IN);
    Total total = start();
    for (int64 i = first + PACK * thread; i < last; i += PACK * threads) {
        if (dense) {
            const Pack<IN> pack = row_pack<IN>(source, 1, i, last);
            #pragma unroll
            for (int j = 0; j < PACK; ++j)
                if (i + j < last) total = merged(total, counted(pack.element[j], mean));
        } else {
            for (int64 j = i; j < smaller(i + PACK, last); ++j)
                total = merged(total, counted(*at<const IN>(source + offset(sample.reduced, reduced, j)), mean));
        }
    }
    return total;
}

// One thread per output, for many outputs or few elements per output.
KERNEL direct(const int64 *context) {
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        FOR_ITEMS(output, sample.outputs) {
            Total total;
            if (KIND >= 3 && context[REDUCTION_REDUCED] == 0) total = counted(*at<const IN>(sample.source + offset(sample.kept, context[REDUCTION_KEPT], output)), 0);
            else total = summed(context, sample, output, 0, sample.volume, 0, 1);
            finish_one(context, number, sample, output, total);
        }
    }
}

// One block per part of an output.
KERNEL partial(const int64 *context) {
    __shared__ Total totals[256];
    const int64 parts = context[REDUCTION_PARTS];
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        Total *out = at<Total>(context[REDUCTION_PARTIALS]) + address(context, REDUCTION_FIRST, number) * parts;
        const int64 length = ((sample.volume + parts - 1) / parts + PACK - 1) / PACK * PACK;
        for (int64 item = blockIdx.x; item < sample.outputs * parts; item += gridDim.x) {
            const int64 output = item / parts, first = item % parts * length;
            const Total mine = summed(context, sample, output, first, smaller(first + length, sample.volume), threadIdx.x, blockDim.x);
            const Total total = total_of_block(totals, mine);
            if (threadIdx.x == 0) out[item] = total;
        }
    }
}

KERNEL finish(const int64 *context) {
    const int64 parts = context[REDUCTION_PARTS];
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        const Total *totals = at<const Total>(context[REDUCTION_PARTIALS]) + address(context, REDUCTION_FIRST, number) * parts;
        FOR_ITEMS(output, sample.outputs) {
            Total total = start();
            for (int64 part = 0; part < parts; ++part) total = merged(total, totals[output * parts + part]);
            finish_one(context, number, sample, output, total);
        }
    }
}

// Like `finish`, with one block per output. It is faster when an output has many parts.
KERNEL finish_by_blocks(const int64 *context) {
    __shared__ Total totals[256];
    const int64 parts = context[REDUCTION_PARTS];
    FOR_SAMPLES(number, context[REDUCTION_SAMPLES]) {
        const Sample sample = sample_of(context, number);
        const Total *given = at<const Total>(context[REDUCTION_PARTIALS]) + address(context, REDUCTION_FIRST, number) * parts;
        for (int64 output = blockIdx.x; output < sample.outputs; output += gridDim.x) {
            Total mine = start();
            for (int64 part = threadIdx.x; part < parts; part += blockDim.x) mine = merged(mine, given[output * parts + part]);
            const Total total = total_of_block(totals, mine);
            if (threadIdx.x == 0) finish_one(context, number, sample, output, total);
        }
    }
}

// Macros: IN element type; SUM, EXACT: sums and rounding.
#include "kernel.cuh"
#include "nonsilent_region_tables.py"

// nonsilent_region. The power of a window is computed from the power of the previous window. The running sum restarts where the compiled
// step restarts it. The windows between two restarts are a stretch; one thread computes a stretch. `powers` finds the largest power of
// each stretch. `borders` finds the first and last window of each stretch above the cut-off. `region` combines the stretches.
#define AHEAD 16
struct Walk {
    const IN *source;
    int64 window, start, stop;  // length of a window; the stretch's windows begin at the samples [start, stop)
    SUM total = 0;

    DEVICE_MEMBER static SUM square(const IN *sample) {
        const SUM value = (SUM)*sample;
        return value * value;
    }
    // The sum of the first window.
    DEVICE_MEMBER SUM first() {
        for (int64 k = start; k < start + window; k += AHEAD) {
            SUM squares[AHEAD];
            const int32 count = (int32)smaller((int64)AHEAD, start + window - k);
            #pragma unroll
            for (int32 j = 0; j < AHEAD; ++j) squares[j] = j < count ? square(source + k + j) : 0;
            #pragma unroll
            for (int32 j = 0; j < AHEAD; ++j)
                if (j < count) total += squares[j];
        }
        return total;
    }
    // Call `each` with the first sample and the sum of every window. The samples of AHEAD windows are loaded before they are added,
    // because few threads are at work, and each would wait for one sample at a time.
    template <class Each> DEVICE_MEMBER void all(Each each) {
        if (start >= stop) return;
        each(start, first());
        int64 begin = start + 1;
        for (; begin + AHEAD <= stop; begin += AHEAD) {
            SUM gone[AHEAD], come[AHEAD];
            const IN *left = source + begin - 1, *right = left + window;
            #pragma unroll
            for (int32 k = 0; k < AHEAD; ++k) gone[k] = square(left + k), come[k] = square(right + k);
            #pragma unroll
            for (int32 k = 0; k < AHEAD; ++k) {
                total = total - gone[k] + come[k];
                each(begin + k, total);
            }
        }
        for (; begin < stop; ++begin) {
            total = total - square(source + begin - 1) + square(source + begin + window - 1);
            each(begin, total);
        }
    }
};

// The power of a window. It grows with the sum, so the largest power is that of the largest sum.
struct Power {
    float64 window;
    float32 inverse;
    DEVICE_MEMBER explicit Power(int64 length) : window((float64)length), inverse(1.0f / (float32)length) {}
    DEVICE_MEMBER float64 of(SUM total) const { return EXACT ? (float64)total / window : (float64)((float32)total * inverse); }
};

DEVICE Walk walk_of(const int64 *context, int64 sample, int64 stretch) {
    const int64 count = array<int64>(context, NONSILENT_GPU_COUNTS)[sample], window = smaller(context[NONSILENT_GPU_WINDOW], count), lead = context[NONSILENT_GPU_LEAD], size = context[NONSILENT_GPU_STRETCH];
    const int64 start = lead && stretch ? lead + (stretch - 1) * size : stretch * size, stop = start + (lead && !stretch ? lead : size);
    return Walk{at<const IN>(address(context, NONSILENT_GPU_INPUTS, sample)), window, start, smaller(stop, count - window + 1)};
}

KERNEL powers(const int64 *context) {
    FOR_SAMPLES(sample, context[NONSILENT_GPU_SAMPLES]) {
        FOR_ITEMS(stretch, context[NONSILENT_GPU_STRETCHES]) {
            Walk walk = walk_of(context, sample, stretch);
            SUM largest = 0;
            walk.all([&](int64 begin, SUM total) { largest = begin == walk.start ? total : larger(largest, total); });
            at<float64>(context[NONSILENT_GPU_POWERS])[sample * context[NONSILENT_GPU_STRETCHES] + stretch] =
                walk.start < walk.stop ? Power(walk.window).of(largest) : 0.0;
        }
    }
}

KERNEL borders(const int64 *context) {
    FOR_SAMPLES(sample, context[NONSILENT_GPU_SAMPLES]) {
        FOR_ITEMS(stretch, context[NONSILENT_GPU_STRETCHES]) {
            float64 reference = array<float64>(context, NONSILENT_GPU_CUT)[NONSILENT_CUT_REFERENCE];
            if (reference == 0)
                for (int64 k = 0; k < context[NONSILENT_GPU_STRETCHES]; ++k) reference = larger(reference, array<float64>(context, NONSILENT_GPU_POWERS)[sample * context[NONSILENT_GPU_STRETCHES] + k]);
            const float64 part = array<float64>(context, NONSILENT_GPU_CUT)[NONSILENT_CUT_PART];
            const float64 cut_off = EXACT ? (float64)(float32)(reference * part) : (float64)((float32)reference * (float32)part);
            Walk walk = walk_of(context, sample, stretch);
            int64 first = -1, last = -1;
            const Power power(walk.window);
            walk.all([&](int64 begin, SUM total) {
                if (!(power.of(total) >= cut_off)) return;
                if (first < 0) first = begin;
                last = begin + walk.window - 1;
            });
            int64 *found = at<int64>(context[NONSILENT_GPU_BORDERS]) + NONSILENT_BORDERS_WORDS * (sample * context[NONSILENT_GPU_STRETCHES] + stretch);
            found[NONSILENT_BORDERS_FIRST] = first;
            found[NONSILENT_BORDERS_LAST] = last;
        }
    }
}

KERNEL region(const int64 *context) {
    FOR_ITEMS(sample, context[NONSILENT_GPU_SAMPLES]) {
        const int64 *found = array<int64>(context, NONSILENT_GPU_BORDERS) + NONSILENT_BORDERS_WORDS * sample * context[NONSILENT_GPU_STRETCHES];
        int64 first = -1, last = -1;
        for (int64 k = 0; k < context[NONSILENT_GPU_STRETCHES]; ++k, found += NONSILENT_BORDERS_WORDS) {
            if (found[NONSILENT_BORDERS_FIRST] < 0) continue;
            if (first < 0) first = found[NONSILENT_BORDERS_FIRST];
            last = found[NONSILENT_BORDERS_LAST];
        }
        *at<int32>(address(context, NONSILENT_GPU_STARTS, sample)) = (int32)larger(first, (int64)0);
        *at<int32>(address(context, NONSILENT_GPU_LENGTHS, sample)) = first >= 0 ? (int32)(last - first + 1) : 0;
    }
}

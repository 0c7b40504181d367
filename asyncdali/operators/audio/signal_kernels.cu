// to_decibels, preemphasis_filter and nonsilent_region.
// Macros: IN, OUT element types (of preemphasis and, IN, of nonsilent_region).
#include "kernel.cuh"

// The largest element of each part of a sample, at least 0. Table: 0 input addresses, 1 output addresses, 2 elements int64[samples],
// 3 float64[3] (multiplier, reference or 0: the largest element, smallest ratio), 4 samples, 5 parts, 6 largest elements [samples, parts].
KERNEL peaks(const int64 *context) {
    __shared__ float32 largest[256];
    const int64 parts = context[5];
    FOR_SAMPLES(sample, context[4]) {
        const float32 *source = at<const float32>(address(context, 0, sample));
        const int64 count = array<int64>(context, 2)[sample];
        for (int64 part = blockIdx.x; part < parts; part += gridDim.x) {
            float32 found = 0;
            for (int64 i = part * blockDim.x + threadIdx.x; i < count; i += parts * blockDim.x) found = larger(found, source[i]);
            largest[threadIdx.x] = found;
            __syncthreads();
            for (int32 half = blockDim.x / 2; half > 0; half /= 2) {
                if ((int32)threadIdx.x < half) largest[threadIdx.x] = larger(largest[threadIdx.x], largest[threadIdx.x + half]);
                __syncthreads();
            }
            if (threadIdx.x == 0) at<float32>(context[6])[sample * parts + part] = largest[0];
            __syncthreads();
        }
    }
}

KERNEL decibels(const int64 *context) {
    const int64 parts = context[5];
    const float64 *numbers = array<float64>(context, 3);
    FOR_SAMPLES(sample, context[4]) {
        const float32 *source = at<const float32>(address(context, 0, sample));
        float32 *out = at<float32>(address(context, 1, sample));
        float64 reference = numbers[1];
        if (reference == 0) {
            float32 found = 0;
            for (int64 part = 0; part < parts; ++part) found = larger(found, array<float32>(context, 6)[sample * parts + part]);
            reference = found == 0 ? 1.0 : (float64)found;
        }
        FOR_ITEMS(i, array<int64>(context, 2)[sample]) {
            out[i] = (float32)(numbers[0] * log10(larger(numbers[2], (float64)source[i] / reference)));
        }
    }
}

// The table is that of preemphasis_step, then 5 samples.
KERNEL preemphasis(const int64 *context) {
    const int64 border = context[4];
    FOR_SAMPLES(sample, context[5]) {
        const IN *source = at<const IN>(address(context, 0, sample));
        OUT *out = at<OUT>(address(context, 1, sample));
        const float32 coefficient = array<float32>(context, 3)[sample];
        const int64 count = array<int64>(context, 2)[sample];
        FOR_ITEMS(i, count) {
            float32 before = 0;
            if (i) before = (float32)source[i - 1];
            else if (border == 1 || (border == 2 && count == 1)) before = (float32)source[0];
            else if (border == 2) before = (float32)source[1];
            out[i] = convert<OUT>((float32)source[i] - coefficient * before);
        }
    }
}

// nonsilent_region. A window's power follows from that of the window before it, and is summed anew where the compiled step does so; between such
// places (a stretch) one thread goes from window to window. `powers` finds the largest of each stretch, `borders` where each is above the
// cut-off first and last, `region` puts these together.
//
// Table: that of nonsilent_step (0 input addresses, 1 and 2 output addresses, 3 elements int64[samples], 4 window, 6 float64[2]: reference or 0,
// cut-off), then 7 windows of a stretch, 8 stretches, 9 samples, 10 largest powers float64[samples, stretches], 11 borders
// int64[samples, stretches, 2].
struct Walk {
    const IN *source;
    int64 window, start, stop;  // windows that begin in [start, stop)
    float64 total = 0;

    DEVICE_MEMBER float64 square(int64 i) const {
        const float64 value = (float64)source[i];
        return value * value;
    }
    DEVICE_MEMBER float64 first() {
        for (int64 k = start; k < start + window; ++k) total += square(k);
        return total / (float64)window;
    }
    DEVICE_MEMBER float64 next(int64 begin) {
        total = total + square(begin + window - 1) - square(begin - 1);
        return total / (float64)window;
    }
};

DEVICE Walk walk_of(const int64 *context, int64 sample, int64 stretch) {
    const int64 count = array<int64>(context, 3)[sample], window = smaller(context[4], count), start = stretch * context[7];
    return Walk{at<const IN>(address(context, 0, sample)), window, start, smaller(start + context[7], count - window + 1)};
}

KERNEL powers(const int64 *context) {
    FOR_SAMPLES(sample, context[9]) {
        FOR_ITEMS(stretch, context[8]) {
            Walk walk = walk_of(context, sample, stretch);
            float64 largest = 0;
            if (walk.start < walk.stop) {
                largest = walk.first();
                for (int64 begin = walk.start + 1; begin < walk.stop; ++begin) largest = larger(largest, walk.next(begin));
            }
            at<float64>(context[10])[sample * context[8] + stretch] = largest;
        }
    }
}

KERNEL borders(const int64 *context) {
    FOR_SAMPLES(sample, context[9]) {
        FOR_ITEMS(stretch, context[8]) {
            float64 reference = array<float64>(context, 6)[0];
            if (reference == 0)
                for (int64 k = 0; k < context[8]; ++k) reference = larger(reference, array<float64>(context, 10)[sample * context[8] + k]);
            const float64 cut_off = (float64)(float32)(reference * array<float64>(context, 6)[1]);
            Walk walk = walk_of(context, sample, stretch);
            int64 first = -1, last = -1;
            for (int64 begin = walk.start; begin < walk.stop; ++begin) {
                if (!((begin == walk.start ? walk.first() : walk.next(begin)) >= cut_off)) continue;
                if (first < 0) first = begin;
                last = begin + walk.window - 1;
            }
            int64 *found = at<int64>(context[11]) + 2 * (sample * context[8] + stretch);
            found[0] = first;
            found[1] = last;
        }
    }
}

KERNEL region(const int64 *context) {
    FOR_ITEMS(sample, context[9]) {
        const int64 *found = array<int64>(context, 11) + 2 * sample * context[8];
        int64 first = -1, last = -1;
        for (int64 k = 0; k < context[8]; ++k) {
            if (found[2 * k] < 0) continue;
            if (first < 0) first = found[2 * k];
            last = found[2 * k + 1];
        }
        *at<int32>(address(context, 1, sample)) = (int32)larger(first, (int64)0);
        *at<int32>(address(context, 2, sample)) = first >= 0 ? (int32)(last - first + 1) : 0;
    }
}

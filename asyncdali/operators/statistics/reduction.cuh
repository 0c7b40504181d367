// Shared part of the kernels of reductions. Floats are summed in float64, in an order that depends only on the shape; integers in 64 bits.
// Macros: IN, OUT element types; KIND: 0 sum of elements, 1 sum of squares, 2 sum of squared distances from the mean, 3 maximum,
// 4 minimum; WHOLE 1: sums are integers.
#include "place.cuh"
#include "reductions_tables.py"

#if KIND >= 3
typedef IN Total;
#elif WHOLE
template <bool wide> struct Whole { typedef int64 T; };
template <> struct Whole<true> { typedef float64 T; };  // 64 bits cannot hold sums of squares of 32 and 64 bits
typedef Whole<KIND == 1 && sizeof(IN) >= 4>::T Total;
#else
typedef float64 Total;
#endif

DEVICE Total start() {
#if KIND < 3
    return 0;
#else
    if constexpr (Kind<IN>::is_float) return KIND == 3 ? (IN)-3.4028234663852886e38f : (IN)3.4028234663852886e38f;
    else return KIND == 3 ? lowest<IN>() : highest<IN>();
#endif
}

// Combine two totals.
DEVICE Total merged(Total a, Total b) {
#if KIND == 3
    return b > a ? b : a;
#elif KIND == 4
    return b < a ? b : a;
#else
    return a + b;
#endif
}

// The contribution of an element.
DEVICE Total counted(IN element, float32 mean) {
#if KIND >= 3
    return element;
#elif KIND == 2
    const float32 distance = (float32)element - mean;
    return distance * distance;
#elif KIND == 1
    if constexpr (Kind<IN>::is_float) {
        return element * element;
    } else {
        constexpr bool negative = (IN)-1 < (IN)0;
        if constexpr (WHOLE && sizeof(IN) >= 4) return (float64)element * (float64)element;
        if constexpr (sizeof(IN) == 8) {
            const uint64 size = negative && element < (IN)0 ? 0 - (uint64)element : (uint64)element;
            if (size > (negative ? 3037000499ull : 4294967295ull)) return (Total)(float32)((float64)element * (float64)element);
        }
        const uint64 square = (uint64)(int64)element * (uint64)(int64)element;  // fits into 64 bits
        if constexpr ((IN)-1 < (IN)0) return WHOLE ? (Total)(int64)square : (Total)(float32)(int64)square;
        else return WHOLE ? (Total)square : (Total)(float32)square;
    }
#else
    if constexpr (WHOLE) return (Total)element;
    else return (Total)(float32)element;
#endif
}

struct Sample {
    const int64 *kept, *reduced;  // extents of the kept or reduced axes, followed by their strides in bytes
    int64 outputs, volume, source, means, each;
};

DEVICE Sample sample_of(const int64 *context, int64 sample) {
    const int64 kept = context[REDUCTION_KEPT], reduced = context[REDUCTION_REDUCED];
    Sample found;
    found.kept = array<int64>(context, REDUCTION_RECORDS) + sample * 2 * (kept + reduced);
    found.reduced = found.kept + 2 * kept;
    found.outputs = found.volume = 1;
    for (int64 k = 0; k < kept; ++k) found.outputs *= found.kept[k];
    for (int64 k = 0; k < reduced; ++k) found.volume *= found.reduced[k];
    found.source = address(context, REDUCTION_INPUTS, sample);
    found.means = KIND == 2 ? place(context, REDUCTION_MEANS_ADDRESSES, sample) : 0;
    found.each = KIND == 2 ? address(context, REDUCTION_EACH, sample) : 0;
    return found;
}

// Offset in bytes of element `i` of a box: `axes` extents, then `axes` strides.
DEVICE int64 offset(const int64 *box, int64 axes, int64 i) {
    if (axes == 1) return i * box[axes];
    int64 at = 0;
    for (int64 k = axes - 1; k >= 0; --k) at += take(i, box[k]) * box[axes + k];
    return at;
}

DEVICE float32 mean_of(const Sample &sample, int64 output) { return KIND == 2 ? at<const float32>(sample.means)[output * sample.each] : 0; }

// The result of an output with this total.
DEVICE OUT finished(const int64 *context, const Sample &sample, Total total) {
#if KIND >= 3
    return (OUT)total;
#else
    const int64 what = context[REDUCTION_FINISH];
    if constexpr (WHOLE) {
        if (what == 0) return (OUT)total;
    }
    constexpr bool wide = WHOLE && (Total)0.5 != 0;
    if constexpr (wide) {
        const float64 mean = total / (float64)sample.volume;
        return convert<OUT, float32, false>((float32)(what == 2 ? sqrt(mean) : mean));
    }
    constexpr bool wraps = WHOLE && !((IN)-1 < (IN)0);  // unsigned sums in a signed total
    float32 result = wraps ? (float32)(uint64)total : (float32)total;
    if (KIND == 2 && context[REDUCTION_NO_AXES]) result = 0;  // without reduced axes each element is its own mean
    else if (what) result *= 1.0f / (float32)(sample.volume - context[REDUCTION_DDOF]);
    if (what == 2) result = sqrtf(result);
    return convert<OUT, float32, false>(result);
#endif
}

DEVICE void finish_one(const int64 *context, int64 number, const Sample &sample, int64 output, Total total) {
    at<OUT>(place(context, REDUCTION_OUT_ADDRESSES, number))[output] = finished(context, sample, total);
}

// The total over all threads of a block. `totals` is shared memory with an element for each thread.
DEVICE Total total_of_block(Total *totals, Total mine) {
    totals[threadIdx.x] = mine;
    __syncthreads();
    for (int32 half = blockDim.x / 2; half > 0; half /= 2) {
        if ((int32)threadIdx.x < half) totals[threadIdx.x] = merged(totals[threadIdx.x], totals[threadIdx.x + half]);
        __syncthreads();
    }
    const Total total = totals[0];
    __syncthreads();
    return total;
}

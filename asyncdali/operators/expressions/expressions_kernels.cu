// Arithmetic: a whole expression, computed in registers in one pass over its inputs. Macros define the expression (cuda_code.py):
//   OUT                     element type of the result
//   INPUTS                  number of inputs
//   EACH_INPUT(DO)          DO(k, T) for each input k and its element type
//   PARAMETERS, EXPRESSION  the parameters of `evaluate` (a register for each input) and its body
//   ARGUMENTS(j)            its arguments: element j of x<k>, for each input
//   ROWS                    1: the kernel of samples that are one row; 0: of all others
//   EACH                    of rows: neighbouring elements that a thread computes, 16 bytes of the largest type, at least 4
#include "lines.cuh"
#include "expressions_tables.py"

// -------------------------------------------------------------------------------------------------------------- operations on registers

template <class T> struct Unsigned { typedef uint32 type; };
template <> struct Unsigned<int64> { typedef uint64 type; };
template <> struct Unsigned<uint64> { typedef uint64 type; };
template <class T> struct Signed { typedef int32 type; };
template <> struct Signed<int64> { typedef int64 type; };

template <class T> DEVICE constexpr bool signed_type() { return (T)-1 < (T)0; }

// Half floats are computed as float32 and rounded (to even) after each operation.
DEVICE float32 half_rounded(float32 value) { return half_to_float(float_to_nearest_half(value)); }

DEVICE bool in_register(boolean element) { return element.bits != 0; }
DEVICE float32 in_register(float16 element) { return half_to_float(element); }
template <class T> DEVICE T in_register(T element) { return element; }

template <class T, class R> DEVICE T in_memory(R value) {
    if constexpr (Kind<T>::is_bool) return T{(uint8)value};
    else if constexpr (Kind<T>::is_half) return float_to_nearest_half(value);
    else return value;
}

// CUDA C++ has no literals for infinity and NaN.
DEVICE float32 float_of_bits(uint32 bits) {
    union { uint32 bits; float32 number; } both;
    both.bits = bits;
    return both.number;
}
DEVICE float64 double_of_bits(uint64 bits) {
    union { uint64 bits; float64 number; } both;
    both.bits = bits;
    return both.number;
}

// Integers wrap around.
#define WRAPPING(name, symbol)                                                                                           \
    template <class T> DEVICE T name(T a, T b) {                                                                         \
        if constexpr (Kind<T>::is_float) return a symbol b;                                                              \
        else return (T)((typename Unsigned<T>::type)a symbol (typename Unsigned<T>::type)b);                             \
    }
WRAPPING(add, +)
WRAPPING(sub, -)
WRAPPING(mul, *)

template <class T> DEVICE T negated(T a) {
    if constexpr (Kind<T>::is_float) return -a;
    else return (T)(0 - (typename Unsigned<T>::type)a);
}
template <class T> DEVICE T absolute(T a) { return a < (T)0 ? negated(a) : a; }  // -0.0 is kept
template <class T> DEVICE T inverted(T a) { return (T)~(typename Unsigned<T>::type)a; }
DEVICE bool inverted(bool a) { return !a; }

// Minimum and maximum. Both return the second operand if one operand is NaN.
template <class T> DEVICE T least(T a, T b) { return a < b ? a : b; }
template <class T> DEVICE T greatest(T a, T b) { return b < a ? a : b; }
template <class T> DEVICE T clamped(T value, T low, T high) {
    const T raised = value < low ? low : value;
    return high < raised ? high : raised;
}

// Division towards zero; the smallest number divided by -1 wraps. Division by zero gives 0, because a kernel cannot raise a sample's error.
template <class T> DEVICE T quotient(T a, T b) {
    if (b == (T)0) return 0;
    if (signed_type<T>() && b == (T)-1) return negated(a);
    return a / b;
}
template <class T> DEVICE T remainder_of(T a, T b) {
    if (b == (T)0 || (signed_type<T>() && b == (T)-1)) return 0;
    return a % b;
}

// Narrow types are shifted as 32-bit integers, and only the lowest 5 bits of the count are used. 64-bit integers use the lowest 6 bits.
template <class T> DEVICE T shifted_left(T a, T count) {
    const int bits = sizeof(T) == 8 ? 63 : 31;
    return (T)((typename Unsigned<T>::type)a << ((int)count & bits));
}
template <class T> DEVICE T shifted_right(T a, T count) {
    const int n = (int)count & (sizeof(T) == 8 ? 63 : 31);
    if constexpr (signed_type<T>()) return (T)((typename Signed<T>::type)a >> n);
    else return (T)((typename Unsigned<T>::type)a >> n);
}

// Power by repeated squaring; 0 for negative exponents.
template <class T> DEVICE T power(T base, T exponent) {
    if (signed_type<T>() && exponent < (T)0) return 0;
    typename Unsigned<T>::type result = 1, factor = base, rest = exponent;
    for (; rest; rest >>= 1) {
        if (rest & 1) result *= factor;
        factor *= factor;
    }
    return (T)result;
}

DEVICE auto evaluate(PARAMETERS) { EXPRESSION }

// -------------------------------------------------------------------------------------------------------------------------- elements

// Set `places` to the operands of element `i` of the result, in bytes from the start of each input. Return the index in the innermost
// group of axes.
DEVICE int64 locate(int64 i, const int64 *extents, const int64 *strides, int64 groups, int64 *places) {
    int64 rest = i, column = 0;
    #pragma unroll
    for (int k = 0; k < INPUTS; ++k) places[k] = 0;
    for (int64 g = groups - 1; g >= 0; --g) {
        const int64 index = g ? take(rest, extents[g]) : rest;
        if (g == groups - 1) column = index;
        #pragma unroll
        for (int k = 0; k < INPUTS; ++k) places[k] += index * strides[k * groups + g];
    }
    return column;
}

// EACH neighbouring elements, which are loaded and stored as words.
template <class T> union Run {
    uint32 word[EACH * sizeof(T) / 4];
    T element[EACH];
};
struct alignas(8) Couple { uint32 word[2]; };

// The elements from `begin` on. Their memory may begin anywhere. Only aligned words that contain one of their bytes are read.
template <class T> DEVICE Run<T> run_at(int64 begin) {
    constexpr int32 SIZE = EACH * sizeof(T), WORDS = SIZE / 4;
    Run<T> run;
    if ((begin & ((SIZE < LINE ? SIZE : LINE) - 1)) == 0) {
        if constexpr (SIZE == 4) {
            run.word[0] = *at<const uint32>(begin);
        } else if constexpr (SIZE == 8) {
            const Couple two = *at<const Couple>(begin);
            run.word[0] = two.word[0], run.word[1] = two.word[1];
        } else {
            #pragma unroll
            for (int32 k = 0; k < WORDS; k += 4) {
                const Line line = line_at(begin + 4 * k);
                #pragma unroll
                for (int32 j = 0; j < 4; ++j) run.word[k + j] = line.word[j];
            }
        }
        return run;
    }
    const int64 first = begin & -4ll;
    const int32 bits = 8 * (int32)(begin & 3);
    uint32 low = word_at(first);
    #pragma unroll
    for (int32 k = 0; k < WORDS; ++k) {
        const uint32 high = k + 1 < WORDS || bits ? word_at(first + 4 * (k + 1)) : 0;
        run.word[k] = __funnelshift_r(low, high, bits);
        low = high;
    }
    return run;
}

template <class T> DEVICE Run<T> repeated(T element) {
    Run<T> run;
    #pragma unroll
    for (int32 k = 0; k < EACH; ++k) run.element[k] = element;
    return run;
}

// `begin` is aligned to the size of the elements.
template <class T> DEVICE void store_run(int64 begin, const Run<T> &run) {
    constexpr int32 SIZE = EACH * sizeof(T);
    if constexpr (sizeof(T) >= 4) {  // as elements: the compiler would store the words of floats one by one
        #pragma unroll
        for (int32 k = 0; k < EACH; k += PACK) {
            Pack<T> pack;
            #pragma unroll
            for (int32 j = 0; j < PACK; ++j) pack.element[j] = run.element[k + j];
            *at<Pack<T>>(begin + k * (int64)sizeof(T)) = pack;
        }
    } else if constexpr (SIZE == 4) {
        *at<uint32>(begin) = run.word[0];
    } else if constexpr (SIZE == 8) {
        *at<Couple>(begin) = Couple{{run.word[0], run.word[1]}};
    } else {
        #pragma unroll
        for (int32 k = 0; k < SIZE / 4; k += 4) store_line(begin + 4 * k, Line{{{run.word[k], run.word[k + 1], run.word[k + 2], run.word[k + 3]}}});
    }
}

// The stride is kept in a register: a load from the table would wait for each store, because the output may be anywhere.
#define SOURCE(k, T) const int64 source##k = address(context, EXPRESSION_CUDA_WORDS + k, sample), step##k = strides[k * groups + groups - 1];
#define LOAD_RUN(k, T) const Run<T> x##k = step##k ? run_at<T>(source##k + i * (int64)sizeof(T)) : repeated<T>(*at<const T>(source##k));
#define LOAD_ONE(k, T) Pack<T> x##k; x##k.element[0] = at<const T>(source##k)[step##k ? e : 0];
#define EMPTY_PACK(k, T) Pack<T> x##k = {};
#define GATHER(k, T) x##k.element[j] = *at<const T>(source##k + places[k]);

#if ROWS
// Samples that are one row: inputs have the shape of the result, or one element.
KERNEL rows(const int64 *context) {
    const int64 width = context[EXPRESSION_CUDA_WIDTH], groups = context[EXPRESSION_CUDA_GROUPS];
    FOR_SAMPLES(sample, context[EXPRESSION_CUDA_SAMPLES]) {
        const int64 *extents = array<int64>(context, EXPRESSION_CUDA_RECORDS) + sample * width + WALK_HEAD_WORDS, *strides = extents + groups;
        const int64 out = address(context, EXPRESSION_CUDA_OUTPUTS, sample);
        const int64 count = extents[groups - 1];
        EACH_INPUT(SOURCE)
        // The first run may begin before the row, because runs are aligned in memory.
        const int64 turn = (int64)EACH * gridDim.x * blockDim.x, behind = (out / (int64)sizeof(OUT)) & (EACH - 1);
        for (int64 i = EACH * ((int64)blockIdx.x * blockDim.x + threadIdx.x) - behind; i < count; i += turn) {
            if (i >= 0 && i + EACH <= count) {
                EACH_INPUT(LOAD_RUN)
                Run<OUT> result;
                #pragma unroll
                for (int32 j = 0; j < EACH; ++j) result.element[j] = in_memory<OUT>(evaluate(ARGUMENTS(j)));
                store_run<OUT>(out + i * (int64)sizeof(OUT), result);
                continue;
            }
            #pragma unroll 1
            for (int64 e = larger(i, (int64)0); e < smaller(i + EACH, count); ++e) {
                EACH_INPUT(LOAD_ONE)
                at<OUT>(out)[e] = in_memory<OUT>(evaluate(ARGUMENTS(0)));
            }
        }
    }
}
#else
// All other samples, whose operands are located by their strides.
KERNEL strided(const int64 *context) {
    const int64 width = context[EXPRESSION_CUDA_WIDTH], groups = context[EXPRESSION_CUDA_GROUPS];
    FOR_SAMPLES(sample, context[EXPRESSION_CUDA_SAMPLES]) {
        const int64 *extents = array<int64>(context, EXPRESSION_CUDA_RECORDS) + sample * width + WALK_HEAD_WORDS, *strides = extents + groups;
        const int64 inner = extents[groups - 1], out = address(context, EXPRESSION_CUDA_OUTPUTS, sample);
        int64 count = inner;
        for (int64 g = 0; g < groups - 1; ++g) count *= extents[g];
        EACH_INPUT(SOURCE)
        FOR_ITEMS(item, (count + PACK - 1) / PACK) {
            const int64 i = item * PACK;
            Pack<OUT> result;
            EACH_INPUT(EMPTY_PACK)
            int64 places[INPUTS];
            int64 column = locate(i, extents, strides, groups, places);
            #pragma unroll
            for (int j = 0; j < PACK; ++j) {
                if (i + j >= count) break;
                EACH_INPUT(GATHER)
                if (++column == inner) {
                    column = locate(i + j + 1, extents, strides, groups, places);
                } else {
                    #pragma unroll
                    for (int k = 0; k < INPUTS; ++k) places[k] += strides[k * groups + groups - 1];
                }
            }
            #pragma unroll
            for (int j = 0; j < PACK; ++j) result.element[j] = in_memory<OUT>(evaluate(ARGUMENTS(j)));
            put(out, i, count, result);
        }
    }
}
#endif

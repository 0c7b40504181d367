// Code that kernels share: element types, the table of a launch, conversions. NVRTC compiles it, and in the tests the system's C++ compiler
// does. It includes no library header, because NVRTC has none.

typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef int int32;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;
typedef float float32;
typedef double float64;
struct float16 { uint16 bits; };
struct boolean { uint8 bits; };

#ifndef HOST_BUILD
#ifndef RESIDENT  // the compiler limits registers so that a multiprocessor can run this number of blocks at a time
#define RESIDENT 1
#endif
#define KERNEL extern "C" __global__ void __launch_bounds__(256, RESIDENT)
#define KERNEL_OF(resident) extern "C" __global__ void __launch_bounds__(256, resident)  // as KERNEL, with a limit of its own
#define DEVICE static __device__ __forceinline__
#define APART static __device__ __noinline__  // a function that is called and not inlined
#define DEVICE_MEMBER __device__ __forceinline__
#define WHOLE_WORD DEVICE
#endif

// ---------------------------------------------------------------------------------------------------------------- the launch's table

template <class T> DEVICE T *at(int64 address) { return reinterpret_cast<T *>(address); }

// `array`: word `k` of the table is the address of an array. `address`: element `i` of the array of addresses at word `k`.
template <class T> DEVICE const T *array(const int64 *context, int k) { return at<const T>(context[k]); }
DEVICE int64 address(const int64 *context, int k, int64 i) { return at<const int64>(context[k])[i]; }

// The aligned word at `address`. Some of its bytes may lie outside the sample's memory. Reading them is safe, because an aligned word never
// crosses a page.
WHOLE_WORD uint32 word_at(int64 address) { return *at<const uint32>(address); }

// Distribute samples over the blocks along y, and the work items [0, count) of a sample over the blocks along x.
#define FOR_SAMPLES(sample, count) for (int64 sample = blockIdx.y; sample < (count); sample += gridDim.y)
#define FOR_ITEMS(i, count) \
    for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (int64)gridDim.x * blockDim.x)

// Distribute the rows of a sample over the blocks along x, and the columns of a row over `lanes` neighbouring threads. A thread
// computes about four columns, because preparing a row takes longer than computing a pixel.
DEVICE int32 lanes_of(int64 width) { return width <= 128 ? 32 : width <= 256 ? 64 : width <= 512 ? 128 : 256; }
#define FOR_ROWS(row, rows, lanes) \
    for (int64 row = (int64)blockIdx.x * (blockDim.x / (lanes)) + threadIdx.x / (lanes); row < (rows); \
         row += (int64)gridDim.x * (blockDim.x / (lanes)))
#define MOST_ROWS 8  // of a block at a time, as a row has at least 32 threads of 256
// The same for kernels with barriers: `first` is the first row of the block's rows, which may lie behind the last row of the sample.
#define FOR_ROWS_TOGETHER(first, rows, lanes) \
    for (int64 first = (int64)blockIdx.x * (blockDim.x / (lanes)); first < (rows); first += (int64)gridDim.x * (blockDim.x / (lanes)))
#define FOR_COLUMNS(column, width, lanes) for (int32 column = threadIdx.x & ((lanes) - 1); column < (width); column += (lanes))

// Split the index of the innermost axis off a flat index. Numbers below 2**32 use the 32-bit division, which is faster.
DEVICE int64 take(int64 &rest, int64 extent) {
    if ((uint64)rest <= 0xffffffffu && (uint64)extent <= 0xffffffffu) {
        uint32 whole = (uint32)rest / (uint32)extent;
        int64 part = (uint32)rest - whole * (uint32)extent;
        rest = whole;
        return part;
    }
    int64 whole = rest / extent;
    int64 part = rest - whole * extent;
    rest = whole;
    return part;
}

template <class T> DEVICE T smaller(T a, T b) { return b < a ? b : a; }
template <class T> DEVICE T larger(T a, T b) { return a < b ? b : a; }

// -------------------------------------------------------------------------------------------- packs: four neighbouring elements per thread

#define PACK 4
template <class T> struct alignas(PACK * sizeof(T)) Pack { T element[PACK]; };

// Loop over the packs of a row of `count` elements at `out`; `i` is the first element of a pack. Packs are aligned to their size in memory,
// but samples are not. The first pack may therefore begin before the row.
#define FOR_PACKS(i, T, out, count)                                                                          \
    for (int64 i = PACK * ((int64)blockIdx.x * blockDim.x + threadIdx.x) - behind_pack<T>(out); i < (count); \
         i += (int64)PACK * gridDim.x * blockDim.x)
template <class T> DEVICE int32 behind_pack(int64 out) { return (int32)(out / (int64)sizeof(T)) & (PACK - 1); }

// Elements i, i + 1, ... of a row of `count` elements. Elements outside the row are 0. `step` 0: all elements are the row's first element.
template <class T> DEVICE Pack<T> row_pack(int64 source, int64 step, int64 i, int64 count) {
    Pack<T> pack = {};
    if (step == 0) {
        const T element = *at<const T>(source);
        for (int j = 0; j < PACK; ++j) pack.element[j] = element;
        return pack;
    }
    const int64 begin = source + i * (int64)sizeof(T);
    if (i >= 0 && i + PACK <= count) {
        if (begin % (int64)sizeof(Pack<T>) == 0) return *at<const Pack<T>>(begin);
        if constexpr (sizeof(T) == 1) {
            const int64 word = begin & -4ll;
            union { uint32 word; Pack<T> pack; } both;
            both.word = __funnelshift_r(word_at(word), word_at(word + 4), 8 * (int32)(begin & 3));
            return both.pack;
        }
    }
    for (int j = 0; j < PACK; ++j)
        if (i + j >= 0 && i + j < count) pack.element[j] = at<const T>(begin)[j];
    return pack;
}

template <class T> DEVICE void put(int64 out, int64 i, int64 count, const Pack<T> &pack) {
    const int64 begin = out + i * (int64)sizeof(T);
    if (i >= 0 && i + PACK <= count && begin % (int64)sizeof(Pack<T>) == 0) {
        *at<Pack<T>>(begin) = pack;
        return;
    }
    for (int j = 0; j < PACK; ++j)
        if (i + j >= 0 && i + j < count) at<T>(begin)[j] = pack.element[j];
}

// ------------------------------------------------------------------------------------------------------------------------ half floats

DEVICE float32 half_to_float(float16 value) {
#ifdef HOST_BUILD
    return host_half_to_float(value.bits);
#else
    float32 out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
    return out;
#endif
}

// Round to the nearest value; ties go to the even value.
DEVICE float16 float_to_nearest_half(float32 value) {
    float16 out;
#ifdef HOST_BUILD
    out.bits = host_float_to_half(value);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#endif
    return out;
}

// Round to the nearest value; ties go away from zero. Setting the lowest bit breaks ties. It would turn infinity into NaN, so infinity is
// left as it is.
DEVICE float16 float_to_half(float32 value) {
    union { float32 real; uint32 bits; } both;
    both.real = value;
    if ((both.bits & 0x7fffffffu) != 0x7f800000u) both.bits |= 1;
    return float_to_nearest_half(both.real);
}

// ------------------------------------------------------------------------------------------------------- conversions (convert_kernels.py)

template <class T> struct Kind { static const bool is_float = false, is_half = false, is_bool = false; };
template <> struct Kind<float32> { static const bool is_float = true, is_half = false, is_bool = false; };
template <> struct Kind<float64> { static const bool is_float = true, is_half = false, is_bool = false; };
template <> struct Kind<float16> { static const bool is_float = true, is_half = true, is_bool = false; };
template <> struct Kind<boolean> { static const bool is_float = false, is_half = false, is_bool = true; };

template <class A, class B> struct Same { static const bool value = false; };
template <class A> struct Same<A, A> { static const bool value = true; };

// Convert a byte to float32 by placing it in the mantissa. This is several times as fast as the conversion instruction.
DEVICE float32 real(uint8 value) {
    union { uint32 bits; float32 number; } both;
    both.bits = 0x4b000000u | value;
    return both.number - 8388608.0f;
}
template <class T> DEVICE float32 real(T value) { return (float32)value; }

// The value of an element: a float for half floats, the number itself for other types.
template <class T> DEVICE auto value_of(T element) {
    if constexpr (Kind<T>::is_half) return half_to_float(element);
    else if constexpr (Kind<T>::is_bool) return element.bits;
    else return element;
}

template <class T> DEVICE T lowest() { return (T)-1 < (T)0 ? (T)((uint64)1 << (8 * sizeof(T) - 1)) : (T)0; }
template <class T> DEVICE T highest() { return (T)-1 < (T)0 ? (T)~lowest<T>() : (T)~(T)0; }

template <class Real> DEVICE Real truncated(Real x) { return sizeof(Real) == 8 ? (Real)trunc((double)x) : (Real)truncf((float)x); }
template <class Real> DEVICE Real magnitude(Real x) { return x < 0 ? -x : x; }

// Convert a float to an integer, saturated. AWAY: round half away from zero; otherwise drop the fraction. NaN becomes the same number as in
// convert_kernels.py.
template <class To, bool AWAY, class Real> DEVICE To whole_number(Real x) {
    if constexpr (Same<To, uint8>::value && Same<Real, float32>::value) {
        // Adding 2**22 (2**23) with rounding towards zero leaves a multiple of 1/2 (of 1) in the low bits of the sum. The instructions for
        // rounding are slower.
        const float32 inside = fminf(fmaxf(x, 0.0f), 255.0f);
        return AWAY ? (uint8)(__float_as_uint(__fadd_rz(inside, 4194304.5f)) >> 1) : (uint8)__float_as_uint(__fadd_rz(inside, 8388608.0f));
    }
    Real whole = truncated(x);
    if (AWAY && magnitude(x - whole) >= (Real)0.5) whole += x < 0 ? (Real)-1 : (Real)1;
    if constexpr (sizeof(To) < 4) {
        if (whole != whole) whole = 0;
        return (To)smaller(larger(whole, (Real)lowest<To>()), (Real)highest<To>());
    } else {
        if (whole != whole) return (To)-1 < (To)0 ? lowest<To>() : (sizeof(To) == 8 ? (To)1 << (8 * sizeof(To) - 1) : (To)0);
        Real above = (Real)highest<To>();  // limits that float64 cannot represent are rounded up to a power of two
        if (sizeof(To) == 4) above += 1;
        if (whole >= above) return highest<To>();
        if (whole <= (Real)lowest<To>()) return lowest<To>();
        return (To)whole;
    }
}

template <class To, class From, bool AWAY = true> DEVICE To convert(From element) {
    if constexpr (Same<To, From>::value) {
        return element;
    } else {
        auto value = value_of(element);
        if constexpr (Kind<To>::is_bool) {
            boolean out;
            if constexpr (Kind<From>::is_float) out.bits = !(magnitude(value) < 0.5f);
            else out.bits = value != 0;
            return out;
        } else if constexpr (Kind<To>::is_half) {
            return float_to_half((float32)value);
        } else if constexpr (Kind<To>::is_float) {
            return (To)value;
        } else if constexpr (Kind<From>::is_float) {
            if constexpr (sizeof(To) >= 4) return whole_number<To, AWAY>((float64)value);
            else return whole_number<To, AWAY>(value);
        } else {
            // Between integers: compare as int64 or uint64, whichever can represent both values.
            if (value < 0) {
                int64 low = (To)-1 < (To)0 ? (int64)lowest<To>() : 0;
                return (int64)value < low ? (To)low : (To)value;
            }
            return (uint64)value > (uint64)highest<To>() ? highest<To>() : (To)value;
        }
    }
}

// The conversion of crop and slice. Floats become integers by dropping the fraction. Values too large for a float type become its largest
// value.
template <class To, class From> DEVICE To sliced(From element) {
    if constexpr (Kind<To>::is_half && !Kind<From>::is_half) {
        const float32 x = (float32)value_of(element);
        return float_to_half(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x);
    } else if constexpr (Same<To, float32>::value && Same<From, float64>::value) {
        const float64 largest = 3.4028234663852886e38;
        return (float32)(element > largest ? largest : element < -largest ? -largest : element);
    } else {
        return convert<To, From, false>(element);
    }
}

// spectrogram: a block of threads transforms a window, with the operations of the compiled steps in the same order.
// `real_spectrogram` transforms even lengths without prime factors above 5, as half as many complex numbers in float32. `spectrogram`
// transforms all other lengths, as a convolution in float64.
// Macros of real_spectrogram: HALF: number of complex numbers of a window; TOGETHER: number of windows that a block transforms together.
#include "kernel.cuh"
#include "spectrogram_fourier_tables.py"

#define MOST 2048 /* complex numbers of float64 in shared memory: 32 KB */

// Fourier transform in place. `n` is a power of two; `roots` are the roots of unity of order `n`.
DEVICE void radix_two(float64 *data, int32 n, const float64 *roots) {
    for (int32 i = threadIdx.x; i < n; i += blockDim.x) {
        int32 j = 0;
        for (int32 bit = 1; bit < n; bit *= 2) j = j * 2 + (i & bit ? 1 : 0);
        if (i < j) {
            for (int part = 0; part < 2; ++part) {
                const float64 kept = data[2 * i + part];
                data[2 * i + part] = data[2 * j + part];
                data[2 * j + part] = kept;
            }
        }
    }
    __syncthreads();
    for (int32 half = 1; half < n; half *= 2) {
        const int32 stride = n / (2 * half);
        for (int32 item = threadIdx.x; item < n / 2; item += blockDim.x) {
            const int32 k = item & (half - 1), a = 2 * (2 * item - k), b = a + 2 * half;
            const float64 wr = roots[2 * k * stride], wi = roots[2 * k * stride + 1];
            const float64 re = data[b] * wr - data[b + 1] * wi, im = data[b] * wi + data[b + 1] * wr;
            data[b] = data[a] - re;
            data[b + 1] = data[a + 1] - im;
            data[a] += re;
            data[a + 1] += im;
        }
        __syncthreads();
    }
}

DEVICE float64 sample_at(const float32 *source, int64 i, int64 length, bool reflect) {
    if (i >= 0 && i < length) return source[i];
    if (!reflect || length == 0) return 0;
    const int64 period = length > 1 ? 2 * (length - 1) : 1;
    i %= period;
    if (i < 0) i += period;
    return source[i >= length ? period - i : i];
}

KERNEL spectrogram(const int64 *context) {
    __shared__ float64 shared[2 * MOST];
    const int32 n = (int32)context[SPECTROGRAM_GPU_LENGTH], m = (int32)context[SPECTROGRAM_GPU_MADE], window_length = (int32)context[SPECTROGRAM_GPU_WEIGHT_COUNT];
    float64 *data = shared;
    if (context[SPECTROGRAM_GPU_MEMORY]) data = at<float64>(context[SPECTROGRAM_GPU_MEMORY]) + ((int64)blockIdx.y * gridDim.x + blockIdx.x) * 2 * m;
    const float64 *roots = array<float64>(context, SPECTROGRAM_GPU_ROOTS), *chirp = array<float64>(context, SPECTROGRAM_GPU_CHIRP), *kernel = array<float64>(context, SPECTROGRAM_GPU_KERNEL);
    const float32 *weights = array<float32>(context, SPECTROGRAM_GPU_WEIGHTS);
    const int32 bins = n / 2 + 1;
    FOR_SAMPLES(sample, context[SPECTROGRAM_GPU_SAMPLES]) {
        const int64 *sizes = array<int64>(context, SPECTROGRAM_GPU_SIZES) + SIGNAL_SIZES_WORDS * sample;
        const int64 length = sizes[SIGNAL_SIZES_LENGTH], windows = sizes[SIGNAL_SIZES_WINDOWS];
        const float32 *source = at<const float32>(address(context, SPECTROGRAM_GPU_INPUTS, sample));
        float32 *out = at<float32>(address(context, SPECTROGRAM_GPU_OUTPUTS, sample));
        for (int64 window = blockIdx.x; window < windows; window += gridDim.x) {
            const int64 first = window * context[SPECTROGRAM_GPU_HOP] - context[SPECTROGRAM_GPU_BEFORE];
            for (int32 k = threadIdx.x; k < m; k += blockDim.x) {
                const float64 x = k < window_length ? sample_at(source, first + k, length, context[SPECTROGRAM_GPU_REFLECT]) * (float64)weights[k] : 0;
                data[2 * k] = k < n ? x * chirp[2 * k] : 0;
                data[2 * k + 1] = k < n ? x * chirp[2 * k + 1] : 0;
            }
            __syncthreads();
            radix_two(data, m, roots);
            for (int32 k = threadIdx.x; k < m; k += blockDim.x) {
                const float64 re = data[2 * k], im = data[2 * k + 1], wr = kernel[2 * k], wi = kernel[2 * k + 1];
                data[2 * k] = re * wr - im * wi;
                data[2 * k + 1] = -(re * wi + im * wr);
            }
            __syncthreads();
            radix_two(data, m, roots);
            for (int32 k = threadIdx.x; k < bins; k += blockDim.x) {
                const float64 a = data[2 * k] / m, b = -data[2 * k + 1] / m, wr = chirp[2 * k], wi = chirp[2 * k + 1];
                const float64 re = a * wr - b * wi, im = a * wi + b * wr;
                const float64 square = re * re + im * im;
                out[context[SPECTROGRAM_GPU_TIME_MAJOR] ? window * bins + k : k * windows + window] = (float32)(context[SPECTROGRAM_GPU_POWER] == 2 ? square : sqrt(square));
            }
            __syncthreads();
        }
    }
}

// A complex number of float32, and the operations of spectrogram_fourier_kernels.py.
struct Pair { float32 re, im; };
DEVICE Pair plus(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
DEVICE Pair minus(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }
DEVICE Pair times(float32 a, Pair b) { return {a * b.re, a * b.im}; }
DEVICE Pair turned(Pair a, Pair w) { return {a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }
DEVICE Pair minus_i(Pair a, Pair b) { return {a.re + b.im, a.im - b.re}; }  // a - i b
DEVICE Pair plus_i(Pair a, Pair b) { return {a.re - b.im, a.im + b.re}; }

#define SIN_3 0.8660254037844386f
#define COS_5 0.30901699437494745f
#define COS_25 (-0.8090169943749475f)
#define SIN_5 0.9510565162951535f
#define SIN_25 0.5877852522924731f

// Transform `RADIX` numbers in place.
template <int32 RADIX> DEVICE void butterfly(Pair *x) {
    if constexpr (RADIX == 2) {
        const Pair a = x[0], b = x[1];
        x[0] = plus(a, b), x[1] = minus(a, b);
    } else if constexpr (RADIX == 3) {
        const Pair a = x[0], sum = plus(x[1], x[2]), difference = times(SIN_3, minus(x[1], x[2])), middle = minus(a, times(0.5f, sum));
        x[0] = plus(a, sum), x[1] = minus_i(middle, difference), x[2] = plus_i(middle, difference);
    } else if constexpr (RADIX == 4) {
        const Pair p = plus(x[0], x[2]), q = minus(x[0], x[2]), r = plus(x[1], x[3]), s = minus(x[1], x[3]);
        x[0] = plus(p, r), x[1] = minus_i(q, s), x[2] = minus(p, r), x[3] = plus_i(q, s);
    } else {
        const Pair a = x[0], p = plus(x[1], x[4]), q = plus(x[2], x[3]), r = minus(x[1], x[4]), s = minus(x[2], x[3]);
        const Pair m = plus(a, plus(times(COS_5, p), times(COS_25, q))), n = plus(a, plus(times(COS_25, p), times(COS_5, q)));
        const Pair u = plus(times(SIN_5, r), times(SIN_25, s)), v = minus(times(SIN_25, r), times(SIN_5, s));
        x[0] = plus(a, plus(p, q)), x[1] = minus_i(m, u), x[2] = minus_i(n, v), x[3] = plus_i(n, v), x[4] = plus_i(m, u);
    }
}

#ifdef HALF
// A block transforms TOGETHER neighbouring windows, because neighbouring numbers of the output belong to neighbouring windows. Every 16
// complex numbers are followed by an unused one. So the threads of a warp, which access every 4th or 16th number, use different banks.
#define PITCH (HALF + HALF / 16 + 1)
#define FITS (HALF <= 4096)  // as _SHARED of spectrogram_kernels.py; longer transforms are made in global memory
DEVICE int32 padded(int32 i) { return i + i / 16; }

// The radix of the next stage, in the order of spectrogram_fourier.py.
template <int32 REST> struct Radix { static constexpr int32 value = REST % 4 == 0 ? 4 : REST % 2 == 0 ? 2 : REST % 3 == 0 ? 3 : 5; };

// All stages that join transforms of lengths from M on. `w`: their twiddle factors.
template <int32 M> DEVICE void stages(Pair *z, int32 windows, const Pair *w) {
    if constexpr (M < HALF) {
        constexpr int32 radix = Radix<HALF / M>::value, items = HALF / radix;
        for (int32 item = threadIdx.x; item < windows * items; item += blockDim.x) {
            const int32 window = item / items, rest = item - window * items, group = rest / M, k = rest - group * M;
            Pair *row = z + window * PITCH, x[radix];
            #pragma unroll
            for (int32 j = 0; j < radix; ++j) {
                const Pair number = row[padded(group * radix * M + k + j * M)];
                x[j] = M > 1 && j > 0 ? turned(number, w[(radix - 1) * k + j - 1]) : number;
            }
            butterfly<radix>(x);
            #pragma unroll
            for (int32 j = 0; j < radix; ++j) row[padded(group * radix * M + k + j * M)] = x[j];
        }
        __syncthreads();
        stages<M * radix>(z, windows, w + (radix - 1) * M);
    }
}

KERNEL real_spectrogram(const int64 *context) {
    __shared__ Pair shared[FITS ? TOGETHER * PITCH : 1];
    Pair *z = shared;
    if constexpr (!FITS) z = at<Pair>(context[REAL_SPECTROGRAM_GPU_MEMORY]) + ((int64)blockIdx.y * gridDim.x + blockIdx.x) * TOGETHER * PITCH;
    const int32 used = (int32)context[REAL_SPECTROGRAM_GPU_WEIGHT_COUNT], *places = array<int32>(context, REAL_SPECTROGRAM_GPU_PLACES);
    const Pair *twiddles = array<Pair>(context, REAL_SPECTROGRAM_GPU_TWIDDLES), *turns = array<Pair>(context, REAL_SPECTROGRAM_GPU_TURNS);
    const float32 *weights = array<float32>(context, REAL_SPECTROGRAM_GPU_WEIGHTS);
    const bool reflect = context[REAL_SPECTROGRAM_GPU_REFLECT] != 0, power = context[REAL_SPECTROGRAM_GPU_POWER] == 2, time_major = context[REAL_SPECTROGRAM_GPU_TIME_MAJOR] != 0;
    FOR_SAMPLES(sample, context[REAL_SPECTROGRAM_GPU_SAMPLES]) {
        const int64 *sizes = array<int64>(context, REAL_SPECTROGRAM_GPU_SIZES) + SIGNAL_SIZES_WORDS * sample;
        const int64 length = sizes[SIGNAL_SIZES_LENGTH], windows = sizes[SIGNAL_SIZES_WINDOWS];
        const float32 *source = at<const float32>(address(context, REAL_SPECTROGRAM_GPU_INPUTS, sample));
        float32 *out = at<float32>(address(context, REAL_SPECTROGRAM_GPU_OUTPUTS, sample));
        for (int64 begin = (int64)blockIdx.x * TOGETHER; begin < windows; begin += (int64)gridDim.x * TOGETHER) {
            const int32 count = (int32)smaller((int64)TOGETHER, windows - begin);
            for (int32 item = threadIdx.x; item < count * HALF; item += blockDim.x) {
                const int32 window = item / HALF, k = item - window * HALF;
                const int64 first = (begin + window) * context[REAL_SPECTROGRAM_GPU_HOP] - context[REAL_SPECTROGRAM_GPU_BEFORE] + 2 * k;
                Pair pair = {0, 0};
                if (2 * k < used) pair.re = (float32)sample_at(source, first, length, reflect) * weights[2 * k];
                if (2 * k + 1 < used) pair.im = (float32)sample_at(source, first + 1, length, reflect) * weights[2 * k + 1];
                z[window * PITCH + padded(places[k])] = pair;
            }
            __syncthreads();
            stages<1>(z, count, twiddles);
            constexpr int32 turned_ones = HALF / 2 + 1;
            for (int32 item = threadIdx.x; item < TOGETHER * turned_ones; item += blockDim.x) {
                const int32 window = time_major ? item / turned_ones : item % TOGETHER, k = time_major ? item % turned_ones : item / TOGETHER;
                if (window >= count) continue;
                const Pair a = z[window * PITCH + padded(k)], b = z[window * PITCH + padded(k > 0 ? HALF - k : 0)], turn = turns[k];
                const Pair even = {a.re + b.re, a.im - b.im}, odd = {a.re - b.re, a.im + b.im};
                const Pair t = {turn.re * odd.im + turn.im * odd.re, turn.im * odd.im - turn.re * odd.re};
                const Pair one = plus(even, t), other = minus(even, t);
                const float32 square = one.re * one.re + one.im * one.im, mirrored = other.re * other.re + other.im * other.im;
                const int64 frequencies = time_major ? 1 : windows;
                float32 *to = out + (begin + window) * (time_major ? HALF + 1 : 1);
                to[k * frequencies] = power ? square : sqrtf(square);
                to[(HALF - k) * frequencies] = power ? mirrored : sqrtf(mirrored);
            }
            __syncthreads();
        }
    }
}
#endif

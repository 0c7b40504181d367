// spectrogram: a block takes a window and transforms it, in float64 and with the operations of fourier_kernels.py in their order.
// Table: 0 input addresses, 1 output addresses, 2 samples and windows int64[samples, 2], 3 length of the transform, 4 length of those that
// are made (a power of two), 5 their roots of unity, 6 chirp or 0, 7 transformed kernel or 0, 8 window function float32, 9 its length, 10 step,
// 11 padding before the signal, 12 whether it is reflected, 13 power, 14 whether time is the outer axis, 15 samples, 16 memory for each block
// (0: shared memory is enough).
#include "kernel.cuh"

#define MOST 2048 /* complex numbers in shared memory: 32 KB */

// In place; `roots` are those of a transform of length `n`.
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
    const int32 n = (int32)context[3], m = (int32)context[4], window_length = (int32)context[9];
    float64 *data = shared;
    if (context[16]) data = at<float64>(context[16]) + ((int64)blockIdx.y * gridDim.x + blockIdx.x) * 2 * m;
    const float64 *roots = array<float64>(context, 5), *chirp = array<float64>(context, 6), *kernel = array<float64>(context, 7);
    const float32 *weights = array<float32>(context, 8);
    const int32 bins = n / 2 + 1;
    FOR_SAMPLES(sample, context[15]) {
        const int64 length = array<int64>(context, 2)[2 * sample], windows = array<int64>(context, 2)[2 * sample + 1];
        const float32 *source = at<const float32>(address(context, 0, sample));
        float32 *out = at<float32>(address(context, 1, sample));
        for (int64 window = blockIdx.x; window < windows; window += gridDim.x) {
            const int64 first = window * context[10] - context[11];
            for (int32 k = threadIdx.x; k < m; k += blockDim.x) {
                const float64 x = k < window_length ? sample_at(source, first + k, length, context[12]) * (float64)weights[k] : 0;
                const bool turned = chirp && k < n;
                data[2 * k] = turned ? x * chirp[2 * k] : x;
                data[2 * k + 1] = turned ? x * chirp[2 * k + 1] : 0;
            }
            __syncthreads();
            radix_two(data, m, roots);
            if (chirp) {
                for (int32 k = threadIdx.x; k < m; k += blockDim.x) {
                    const float64 re = data[2 * k], im = data[2 * k + 1], wr = kernel[2 * k], wi = kernel[2 * k + 1];
                    data[2 * k] = re * wr - im * wi;
                    data[2 * k + 1] = -(re * wi + im * wr);
                }
                __syncthreads();
                radix_two(data, m, roots);
            }
            for (int32 k = threadIdx.x; k < bins; k += blockDim.x) {
                float64 re = data[2 * k], im = data[2 * k + 1];
                if (chirp) {
                    const float64 a = re / m, b = -im / m, wr = chirp[2 * k], wi = chirp[2 * k + 1];
                    re = a * wr - b * wi;
                    im = a * wi + b * wr;
                }
                const float64 square = re * re + im * im;
                out[context[14] ? window * bins + k : k * windows + window] = (float32)(context[13] == 2 ? square : sqrt(square));
            }
            __syncthreads();
        }
    }
}

// Separable filters of images with small windows. Products are added in the same order as in gaussian_blur_kernels.cu. A block copies its part
// of the picture to shared memory, filters it along the width, then along the height. A thread computes RUN neighbouring sums at once:
// each element is loaded once for RUN sums, and weights stay in registers.
// Macros: IN, OUT element types; CHANNELS: number of channels of all samples; TAPS_X, TAPS_Y: size of all windows, 0 if windows differ;
// LONGEST: an odd number that no window exceeds; DOWN: rows of a tile; SINGLE 1: the filter has one term.
#define RESIDENT (SINGLE ? 3 : 2)  // Without a limit the compiler takes 220 registers, and a multiprocessor runs one block at a time.
#include "borders.cuh"
#include "planes_tables.py"
#include "gaussian_blur_tables.py"

#define RUN 8
#define COLUMNS 96  // elements of a tile's row; these four constants have the same values in gaussian_blur_launches.py
#define PIXELS (COLUMNS / CHANNELS)
#define THREADS 256

#define MARGIN_X ((TAPS_X ? TAPS_X : LONGEST) / 2)
#define MARGIN_Y ((TAPS_Y ? TAPS_Y : LONGEST) / 2)
#define ROWS (DOWN + 2 * MARGIN_Y)
#define EACH ((COLUMNS * DOWN / RUN + THREADS - 1) / THREADS)
static constexpr int32 kept_sums = SINGLE ? 1 : EACH;  // groups of RUN sums that a thread keeps from term to term

// Element type in shared memory: bytes and 16-bit integers keep their type, other types become float32.
template <class T> struct Staged { typedef float32 type; };
template <> struct Staged<uint8> { typedef uint8 type; };
template <> struct Staged<int8> { typedef int8 type; };
template <> struct Staged<uint16> { typedef uint16 type; };
template <> struct Staged<int16> { typedef int16 type; };
typedef Staged<IN>::type Element;

// If window sizes differ, elements past the end of a tile are multiplied by weights of 0. Shared memory may contain NaN, and 0 * NaN is
// NaN. These elements are therefore set to 0.
#define CLEARED (!Kind<IN>::is_float && !(TAPS_X && TAPS_Y))

// Words of a row in shared memory. The number is odd, so that neighbouring rows begin in different banks.
#define PITCH ((int32)((COLUMNS + 2 * MARGIN_X * CHANNELS) * sizeof(Element) + 6) / 4 | 1)

// Compute RUN sums over the windows that begin at elements 0, 1, ..., RUN - 1 of `load`. TAPS: size of the windows; 0: the size is `taps`.
template <int32 TAPS, class Load> DEVICE void slide(Load load, const float32 *weights, int32 taps, float32 *total) {
    if constexpr (TAPS > 0) {
        #pragma unroll
        for (int32 i = 0; i < TAPS + RUN - 1; ++i) {
            const float32 element = load(i);
            #pragma unroll
            for (int32 j = 0; j < RUN; ++j) {
                const int32 k = i - j;
                if (k == 0) total[j] = weights[0] * element;
                else if (k > 0 && k < TAPS) total[j] += weights[k] * element;
            }
        }
    } else {
        float32 window[RUN] = {};  // weights i, i - 1, ..., i - RUN + 1
        #pragma unroll
        for (int32 j = 0; j < RUN; ++j) total[j] = 0;
        #pragma unroll 8
        for (int32 i = 0; i < taps + RUN - 1; ++i) {
            const float32 element = load(i);
            #pragma unroll
            for (int32 j = RUN - 1; j > 0; --j) window[j] = window[j - 1];
            window[0] = i < taps ? weights[i] : 0;
            #pragma unroll
            for (int32 j = 0; j < RUN; ++j) {
                // Weights beyond the window are 0. Floats need the test, because an element may be infinite, and 0 * infinity is NaN.
                if (!Kind<IN>::is_float || (i - j >= 0 && i - j < taps)) total[j] += window[j] * element;
            }
        }
    }
}

KERNEL small_windows(const int64 *context) {
    __shared__ uint32 staged[ROWS * PITCH];
    __shared__ float32 lines[ROWS * (COLUMNS + 1)];
    __shared__ int32 begins[ROWS];  // offset of a row's first element in the row's first word
    static_assert(sizeof(staged) + sizeof(lines) + sizeof(begins) <= 48 << 10, "more shared memory than a block may declare");
    const int64 terms = SINGLE ? 1 : context[SEPARABLE_TILE_TERMS];
    const int32 thread = threadIdx.x;
    FOR_SAMPLES(sample, context[SEPARABLE_TILE_SAMPLES]) {
        const int64 *r = array<int64>(context, SEPARABLE_TILE_RECORDS) + PLANES_WORDS * sample;
        const int64 height = r[PLANES_IN_HEIGHT], width = r[PLANES_IN_WIDTH], row = width * CHANNELS;
        const int64 across = (width + PIXELS - 1) / PIXELS, down = (height + DOWN - 1) / DOWN;
        for (int64 item = blockIdx.x; item < r[PLANES_PLANES] * across * down; item += gridDim.x) {
            int64 rest = item;
            const int64 left = take(rest, across) * PIXELS, top = take(rest, down) * DOWN, plane = rest * height * row;
            const IN *source = at<const IN>(address(context, SEPARABLE_TILE_INPUTS, sample)) + plane;
            OUT *out = at<OUT>(address(context, SEPARABLE_TILE_OUTPUTS, sample)) + plane + top * row + left * CHANNELS;
            const int32 high = (int32)smaller((int64)DOWN, height - top), wide = (int32)smaller((int64)PIXELS, width - left);
            const int32 needed = high + 2 * MARGIN_Y, elements = (wide + 2 * MARGIN_X) * CHANNELS;
            const int64 first = (left - MARGIN_X) * CHANNELS;  // first element of a row that is staged; negative at the left border
            const bool inside = first >= 0 && first + elements <= row;
            for (int32 k = thread / 32; k < needed; k += THREADS / 32) {
                const IN *from = source + reflected(top + k - MARGIN_Y, height) * row;
                uint32 *to = staged + k * PITCH;
                if constexpr (sizeof(IN) == 1) {  // copy all words that contain a byte of the row
                    const int64 begin = (int64)from + first, words = begin & -4ll;
                    const int64 low = ((int64)from + larger(first, 0ll)) & -4ll, end = (int64)from + smaller(first + elements, row);
                    for (int64 word = low + 4 * (thread & 31); word < end; word += 128) to[(word - words) / 4] = word_at(word);
                    if ((thread & 31) == 0) begins[k] = (int32)(begin - words);
                } else {
                    const int32 staged_elements = CLEARED ? (PIXELS + 2 * MARGIN_X) * CHANNELS : elements;
                    for (int32 e = thread & 31; e < staged_elements; e += 32) {
                        if (e >= elements) ((Element *)to)[e] = 0;
                        else if (first + e >= 0 && first + e < row) ((Element *)to)[e] = (Element)value_of(from[first + e]);
                    }
                }
            }
            if (!inside) {
                __syncthreads();
                for (int32 k = thread / 32; k < needed; k += THREADS / 32) {
                    const IN *from = source + reflected(top + k - MARGIN_Y, height) * row;
                    Element *to = (Element *)(staged + k * PITCH) + (sizeof(IN) == 1 ? begins[k] : 0);
                    for (int32 e = thread & 31; e < elements; e += 32) {
                        if (first + e >= 0 && first + e < row) continue;
                        to[e] = (Element)value_of(from[reflected(left - MARGIN_X + e / CHANNELS, width) * CHANNELS + e % CHANNELS]);
                    }
                }
            }
            __syncthreads();
            float32 sums[kept_sums][RUN];
            for (int64 term = 0; term < terms; ++term) {
                const int64 *w = array<int64>(context, SEPARABLE_TILE_WINDOWS) + WINDOWS_WORDS * (terms * sample + term);
                const float32 factor = array<float32>(context, SEPARABLE_TILE_FACTORS)[terms * sample + term];
                const float32 *given = array<float32>(context, SEPARABLE_TILE_WEIGHTS);
                const int32 taps_x = TAPS_X ? TAPS_X : (int32)w[WINDOWS_WIDTH_TAPS], taps_y = TAPS_Y ? TAPS_Y : (int32)w[WINDOWS_HEIGHT_TAPS];
                {
                    float32 kept[TAPS_X ? TAPS_X : 1];
                    #pragma unroll
                    for (int32 k = 0; k < TAPS_X; ++k) kept[k] = given[w[WINDOWS_WIDTH_WEIGHTS] + k];
                    const float32 *weights = TAPS_X ? kept : given + w[WINDOWS_WIDTH_WEIGHTS];
                    // Neighbouring threads process neighbouring rows, which begin in different banks.
                    for (int32 i = thread; i < ROWS * (COLUMNS / RUN); i += THREADS) {
                        const int32 k = i % ROWS, channel = i / ROWS % CHANNELS, pixel = i / ROWS / CHANNELS * RUN;
                        if (pixel >= wide) continue;
                        if (k >= needed) {
                            #pragma unroll
                            for (int32 j = 0; CLEARED && j < RUN; ++j) lines[k * (COLUMNS + 1) + (pixel + j) * CHANNELS + channel] = 0;
                            continue;
                        }
                        const Element *from = (const Element *)(staged + k * PITCH) + (sizeof(IN) == 1 ? begins[k] : 0) + (pixel + MARGIN_X - taps_x / 2) * CHANNELS + channel;
                        float32 total[RUN];
                        slide<TAPS_X>([from](int32 n) { return real(from[n * CHANNELS]); }, weights, taps_x, total);
                        #pragma unroll
                        for (int32 j = 0; j < RUN; ++j) lines[k * (COLUMNS + 1) + (pixel + j) * CHANNELS + channel] = total[j];
                    }
                }
                __syncthreads();
                float32 kept[TAPS_Y ? TAPS_Y : 1];
                #pragma unroll
                for (int32 k = 0; k < TAPS_Y; ++k) kept[k] = given[w[WINDOWS_HEIGHT_WEIGHTS] + k];
                const float32 *weights = TAPS_Y ? kept : given + w[WINDOWS_HEIGHT_WEIGHTS];
                #pragma unroll kept_sums
                for (int32 t = 0; t < EACH; ++t) {
                    const int32 i = t * THREADS + thread, column = i % COLUMNS, y = i / COLUMNS * RUN;
                    if (y >= high || column >= wide * CHANNELS) continue;
                    const float32 *from = lines + (y + MARGIN_Y - taps_y / 2) * (COLUMNS + 1) + column;
                    float32 total[RUN];
                    slide<TAPS_Y>([from](int32 n) { return from[n * (COLUMNS + 1)]; }, weights, taps_y, total);
                    #pragma unroll
                    for (int32 j = 0; j < RUN; ++j) {
                        if (terms > 1 || factor != 1) total[j] *= factor;
                        if constexpr (!SINGLE) {
                            if (term) total[j] = sums[t][j] + total[j];
                            sums[t][j] = total[j];
                        }
                        if (term == terms - 1 && y + j < high) out[(y + j) * row + column] = convert<OUT>(total[j]);
                    }
                }
                __syncthreads();
            }
        }
    }
}

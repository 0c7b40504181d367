// Macros: IN element type; SUM, EXACT: sums and rounding.
#include "kernel.cuh"
#include "nonsilent_region_tables.py"

// nonsilent_region. The sum of a window's squares is computed from the sum of the window before; every stretch of windows starts a new sum,
// where the compiled step starts one. `notes` computes the sums, and notes the first and the largest sum of each chunk of windows. `region`
// searches only the first and the last chunk that have a loud window.
#define CHUNK 256  // windows of a stretch between two notes; these three constants have the same values in nonsilent_region_kernels.py
#define STRETCHES 16  // of a block. One thread sums a stretch, because each sum depends on the one before.
#define STEPS 128  // threads of a block, and samples of each stretch that they load at a time

DEVICE SUM square(IN sample) { return (SUM)sample * (SUM)sample; }

struct Signal {
    const IN *source;
    int64 count, window, lead, size, stretches, chunks;
    int64 *notes;

    DEVICE_MEMBER Signal(const int64 *context, int64 sample) {
        source = at<const IN>(address(context, NONSILENT_GPU_INPUTS, sample)), count = array<int64>(context, NONSILENT_GPU_COUNTS)[sample];
        window = smaller(context[NONSILENT_GPU_WINDOW], count), lead = context[NONSILENT_GPU_LEAD], size = context[NONSILENT_GPU_STRETCH];
        stretches = context[NONSILENT_GPU_STRETCHES], chunks = context[NONSILENT_GPU_CHUNKS];
        notes = at<int64>(context[NONSILENT_GPU_NOTES]) + NONSILENT_NOTE_WORDS * stretches * chunks * sample;
    }
    // The first window of a stretch, and the number of its windows. A window has the number of its first sample.
    DEVICE_MEMBER int64 begin(int64 stretch) const { return lead && stretch ? lead + (stretch - 1) * size : stretch * size; }
    DEVICE_MEMBER int64 windows(int64 stretch) const {
        return stretch < stretches ? smaller(lead && !stretch ? lead : size, count - window + 1 - begin(stretch)) : 0;
    }
    DEVICE_MEMBER float64 *note(int64 stretch, int64 chunk) const {
        return reinterpret_cast<float64 *>(notes + NONSILENT_NOTE_WORDS * (stretch * chunks + chunk));
    }
    // Load the samples from `offset` on of the stretches from `first` on.
    DEVICE_MEMBER void load(IN (*tile)[STEPS + 1], int64 first, int64 offset) const {
        IN loaded[STRETCHES];  // All loads are begun before the first store: the compiler cannot know that `tile` is not `source`.
        #pragma unroll
        for (int32 row = 0; row < STRETCHES; ++row) {
            const int64 place = begin(first + row) + offset + threadIdx.x;
            loaded[row] = place < count ? source[place] : 0;
        }
        #pragma unroll
        for (int32 row = 0; row < STRETCHES; ++row) tile[row][threadIdx.x] = loaded[row];
    }
};

// The power of a window. It grows with the sum, so the largest power is that of the largest sum.
struct Power {
    float64 window;
    float32 inverse;
    DEVICE_MEMBER explicit Power(int64 length) : window((float64)length), inverse(1.0f / (float32)length) {}
    DEVICE_MEMBER float64 of(SUM total) const { return EXACT ? (float64)total / window : (float64)((float32)total * inverse); }
};

KERNEL notes(const int64 *context) {
    __shared__ IN leaving[STRETCHES][STEPS + 1];
    __shared__ IN entering[STRETCHES][STEPS + 1];
    const int32 thread = threadIdx.x;
    FOR_SAMPLES(sample, context[NONSILENT_GPU_SAMPLES]) {
        const Signal signal(context, sample);
        for (int64 first = (int64)blockIdx.x * STRETCHES; first < signal.stretches; first += (int64)gridDim.x * STRETCHES) {
            const int64 windows = thread < STRETCHES ? signal.windows(first + thread) : 0;
            const int64 most = smaller(larger(signal.size, signal.lead), signal.count - signal.window + 1 - signal.begin(first));
            SUM total = 0, largest = 0;
            for (int64 done = 0; most > 0 && done < signal.window; done += STEPS) {
                signal.load(leaving, first, done);
                __syncthreads();
                const int32 steps = windows > 0 ? (int32)smaller((int64)STEPS, signal.window - done) : 0;
                for (int32 k = 0; k < steps; ++k) total += square(leaving[thread][k]);
                __syncthreads();
            }
            for (int64 done = 0; done < most; done += STEPS) {
                signal.load(leaving, first, done);
                signal.load(entering, first, done + signal.window);
                __syncthreads();
                if (done < windows) {
                    float64 *note = signal.note(first + thread, done / CHUNK);
                    if (done % CHUNK == 0) note[NONSILENT_NOTE_FIRST] = largest = total;
                    const int32 steps = (int32)smaller((int64)STEPS, windows - done);
                    #pragma unroll 8
                    for (int32 k = 0; k < steps; ++k) {
                        largest = larger(largest, total);
                        total = total - square(leaving[thread][k]) + square(entering[thread][k]);
                    }
                    note[NONSILENT_NOTE_LARGEST] = largest;
                }
                __syncthreads();
            }
        }
    }
}

KERNEL region(const int64 *context) {
    __shared__ float64 powers[STEPS];
    __shared__ int64 firsts[STEPS];
    __shared__ int64 lasts[STEPS];
    __shared__ IN leaving[2][CHUNK];
    __shared__ IN entering[2][CHUNK];
    const int32 thread = threadIdx.x;
    const float64 given = array<float64>(context, NONSILENT_GPU_CUT)[NONSILENT_CUT_REFERENCE], part = array<float64>(context, NONSILENT_GPU_CUT)[NONSILENT_CUT_PART];
    FOR_SAMPLES(sample, context[NONSILENT_GPU_SAMPLES]) {
        const Signal signal(context, sample);
        const Power power(signal.window);
        const int64 chunks = signal.chunks, notes = signal.stretches * chunks;
        // The power of a chunk's largest sum; -1 if the chunk has no windows.
        auto power_of = [&](int64 note) -> float64 {
            const int64 stretch = note / chunks, chunk = note - stretch * chunks;
            return chunk * CHUNK < signal.windows(stretch) ? power.of((SUM)signal.note(stretch, chunk)[NONSILENT_NOTE_LARGEST]) : -1.0;
        };
        float64 reference = given;
        if (given == 0) {
            float64 found = 0;
            for (int64 note = thread; note < notes; note += STEPS) found = larger(found, power_of(note));
            powers[thread] = found;
            __syncthreads();
            for (int32 k = 0; k < STEPS; ++k) reference = larger(reference, powers[k]);
        }
        const float64 cut_off = EXACT ? (float64)(float32)(reference * part) : (float64)((float32)reference * (float32)part);
        int64 first = notes, last = -1;
        for (int64 note = thread; note < notes; note += STEPS) {
            if (!(power_of(note) >= cut_off)) continue;
            first = smaller(first, note);
            last = note;
        }
        firsts[thread] = first, lasts[thread] = last;
        __syncthreads();
        for (int32 k = 0; k < STEPS; ++k) first = smaller(first, firsts[k]), last = larger(last, lasts[k]);
        __syncthreads();
        // Two threads search: one the first window, one the last.
        for (int32 side = 0; last >= 0 && side < 2; ++side) {
            const int64 note = side ? last : first, stretch = note / chunks, begin = signal.begin(stretch) + note % chunks * CHUNK;
            for (int64 k = thread; k < CHUNK; k += STEPS) {
                if (begin + k < signal.count) leaving[side][k] = signal.source[begin + k];
                if (begin + k + signal.window < signal.count) entering[side][k] = signal.source[begin + k + signal.window];
            }
        }
        __syncthreads();
        if (last >= 0 && thread % 32 == 0 && thread / 32 < 2) {
            const int32 side = thread / 32;
            const int64 note = side ? last : first, stretch = note / chunks, chunk = note % chunks, windows = smaller((int64)CHUNK, signal.windows(stretch) - chunk * CHUNK);
            SUM total = (SUM)signal.note(stretch, chunk)[NONSILENT_NOTE_FIRST];
            int64 found = -1;
            for (int32 k = 0; k < windows; ++k) {
                if (power.of(total) >= cut_off && (side || found < 0)) found = k;
                total = total - square(leaving[side][k]) + square(entering[side][k]);
            }
            firsts[side] = signal.begin(stretch) + chunk * CHUNK + found;
        }
        __syncthreads();
        if (thread == 0) {
            *at<int32>(address(context, NONSILENT_GPU_STARTS, sample)) = last < 0 ? 0 : (int32)firsts[0];
            *at<int32>(address(context, NONSILENT_GPU_LENGTHS, sample)) = last < 0 ? 0 : (int32)(firsts[1] + signal.window - firsts[0]);
        }
        __syncthreads();
    }
}

// Philox4x32-10 (random_streams_kernels.py): random words for any value of the counter, and draws from these words.
#include "kernel.cuh"

struct Counter { uint64 key, hi, lo; };
struct Words { uint32 word[4]; };

// The four words for the value `counter + block`.
DEVICE Words words_of(const Counter &counter, uint64 block) {
    const uint64 lo = counter.lo + block, hi = counter.hi + (lo < counter.lo ? 1 : 0);
    uint32 c0 = (uint32)lo, c1 = (uint32)(lo >> 32), c2 = (uint32)hi, c3 = (uint32)(hi >> 32);
    uint32 k0 = (uint32)counter.key, k1 = (uint32)(counter.key >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint64 a = (uint64)c0 * 0xD2511F53u, b = (uint64)c2 * 0xCD9E8D57u;
        c0 = (uint32)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32)b;
        c3 = (uint32)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Words{{c0, c1, c2, c3}};
}

DEVICE uint32 picked(const Words &words, uint32 lane) {
    return lane < 2 ? (lane ? words.word[1] : words.word[0]) : (lane == 2 ? words.word[2] : words.word[3]);
}

// `count` (at most 4) words, starting with word `offset` of the stream that begins at `counter`.
DEVICE Words words_from(const Counter &counter, uint64 offset, uint32 count) {
    const uint32 lane = (uint32)offset & 3;
    const Words first = words_of(counter, offset >> 2), second = lane + count > 4 ? words_of(counter, (offset >> 2) + 1) : first;
    Words found;
    #pragma unroll
    for (uint32 k = 0; k < 4; ++k) found.word[k] = lane + k < 4 ? picked(first, lane + k) : picked(second, (lane + k) & 3);
    return found;
}

#define TWO_TO_MINUS_32 2.3283064365386963e-10f
#define TWO_TO_MINUS_64 5.421010862427522e-20

// Standard normal numbers by the Box-Muller transform. Only the cosine of each pair is used.
DEVICE float32 normal32(const Counter &counter, uint64 offset) {
    const Words words = words_from(counter, offset, 2);
    float32 u1 = (float32)words.word[0] * TWO_TO_MINUS_32, u2 = (float32)words.word[1] * TWO_TO_MINUS_32;
    if (u1 == 0) {
        u1 = u2 == 0 ? 1e-30f : u2;
        u2 = 0;
    }
    const float32 radius = sqrtf(-2.0f * logf(u1));
    return radius * cosf(6.2831853071795864769f * u2);
}

DEVICE float64 normal64(const Counter &counter, uint64 offset) {
    const Words words = words_from(counter, offset, 4);
    float64 u1 = (float64)(words.word[0] | (uint64)words.word[1] << 32) * TWO_TO_MINUS_64;
    float64 u2 = (float64)(words.word[2] | (uint64)words.word[3] << 32) * TWO_TO_MINUS_64;
    if (u1 == 0) {
        u1 = u2 == 0 ? (float64)1e-30f : u2;
        u2 = 0;
    }
    return sqrt(-2.0 * log(u1)) * cos(6.2831853071795864769 * u2);
}

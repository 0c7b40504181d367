// Loads of a few neighbouring bytes at any address, as words: the caches serve a word as fast as a byte.
#include "kernel.cuh"

#ifdef HOST_BUILD
DEVICE uint32 constant_word(int64 address) { return word_at(address); }
#else
DEVICE uint32 constant_word(int64 address) { return __ldg(at<const uint32>(address)); }
#endif

// Six neighbouring bytes. Only aligned words that contain at least one of the bytes are read.
struct SixBytes { uint32 low, high; };
DEVICE SixBytes six_bytes(int64 address) {
    const int64 word = address & -4ll;
    const int32 bits = 8 * (int32)(address & 3);
    const uint32 a = constant_word(word), b = constant_word(word + 4), c = bits == 24 ? constant_word(word + 8) : 0;
    return SixBytes{__funnelshift_r(a, b, bits), __funnelshift_r(b, c, bits)};
}

// Three neighbouring bytes. The fourth byte of the result is any.
DEVICE uint32 three_bytes(int64 address) {
    const int64 word = address & -4ll;
    const int32 bits = 8 * (int32)(address & 3);
    return __funnelshift_r(constant_word(word), bits > 8 ? constant_word(word + 4) : 0, bits);
}

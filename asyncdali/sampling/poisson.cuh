// Poisson counts by the algorithm of std::poisson_distribution in the GNU C++ library (random_distributions_kernels.py).
#include "philox.cuh"

// Consecutive 32-bit words of a random stream, from any offset on. Four words are made at a time, whatever the offset: the threads of a warp
// have different offsets, and would otherwise compute the blocks of their words one after another.
struct Stream {
    Counter counter;
    uint64 block;
    uint32 phase, at = 4;
    Words current, words = {};

    DEVICE_MEMBER Stream(const Counter &given, uint64 offset) : counter(given), block(offset >> 2), phase((uint32)offset & 3) {
        current = words_of(counter, block);
    }

    DEVICE_MEMBER uint32 next() {
        if (at == 4) {
            const Words following = words_of(counter, ++block);
            words = phase == 0 ? current
                : phase == 1   ? Words{{current.word[1], current.word[2], current.word[3], following.word[0]}}
                : phase == 2   ? Words{{current.word[2], current.word[3], following.word[0], following.word[1]}}
                               : Words{{current.word[3], following.word[0], following.word[1], following.word[2]}};
            current = following;
            at = 0;
        }
        return picked(words, at++);
    }

    // A uniform number in [0, 1), from two words.
    DEVICE_MEMBER float64 canonical() {
        const float64 low = (float64)next();
        const float64 value = (low + (float64)next() * 4294967296.0) / 18446744073709551616.0;
        return value < 1.0 ? value : 0.99999999999999988898;
    }
};

// Standard normal numbers by the polar method, which makes two numbers at a time.
struct Normals {
    bool kept = false;
    float64 value = 0;

    DEVICE_MEMBER float64 next(Stream &stream) {
        if (kept) {
            kept = false;
            return value;
        }
        float64 x, y, r2;
        do {
            x = 2.0 * stream.canonical() - 1.0;
            y = 2.0 * stream.canonical() - 1.0;
            r2 = x * x + y * y;
        } while (r2 > 1.0 || r2 == 0.0);
        const float64 scale = sqrt(-2.0 * log(r2) / r2);
        kept = true;
        value = x * scale;
        return y * scale;
    }
};

// The constants of one mean. Means below 12 multiply uniform draws; larger means use Devroye's rejection method.
struct PoissonMean {
    float64 mean, limit, m, log_mean, log_factorial, root, d, scale, inverse, c1, c2, c5, c;

    DEVICE_MEMBER void set(float64 value) {
        mean = value;
        if (mean < 12) {
            limit = exp(-mean);
            return;
        }
        const float64 quarter_pi = 0.7853981633974483;
        m = floor(mean), log_mean = log(mean), log_factorial = lgamma(m + 1.0), root = sqrt(m);
        const float64 wide = sqrt(2 * m * log(32 * m / quarter_pi));
        const float64 bounded = larger(6.0, smaller(m, wide));
        d = floor(bounded) + (bounded - floor(bounded) >= 0.5 ? 1.0 : 0.0);
        const float64 cx = 2 * m + d;
        scale = sqrt(cx / 2), inverse = 1 / cx, c1 = root * 1.2533141373155003;
        c2 = sqrt(quarter_pi * cx) * exp(inverse) + c1;
        c5 = c2 + 1 + 1 + 1.0129030479320018;
        c = 2 * cx * exp(-d * inverse * (1 + d / 2)) / d + c5;
    }
};

#define FACTORIALS 512  // as in random_distributions_kernels.py
// lgamma of the integer `k`. `factorials` has the results for the numbers below FACTORIALS.
DEVICE float64 log_factorials(float64 k, const float64 *factorials) { return k < FACTORIALS ? factorials[(int32)k] : lgamma(k); }

DEVICE float64 poisson_small(Stream &stream, float64 limit) {
    float64 product = 1.0;
    int64 count = 0;
    do {
        product *= stream.canonical();
        ++count;
    } while (product > limit);
    return (float64)(count - 1);
}

// A count with the given mean.
DEVICE float64 poisson(Stream &stream, const PoissonMean &k, const float64 *factorials) {
    if (k.mean < 12) return poisson_small(stream, k.limit);
    if (k.mean >= 4294967296.0) {  // Counts of the rejection are below 2^32, so it would never end.
        Normals normals;
        return k.mean <= 1.7976931348623157e308 ? floor(k.mean + sqrt(k.mean) * normals.next(stream) + 0.5) : 0.0;
    }
    Normals normals;
    for (;;) {
        const float64 u = k.c * stream.canonical();
        const float64 e = -log(1.0 - stream.canonical());
        float64 x, w = 0.0;
        if (u <= k.c1) {
            const float64 n = normals.next(stream);
            x = floor(-fabs(n) * k.root - 1);
            w = -n * n / 2;
            if (x < -k.m) continue;
        } else if (u <= k.c2) {
            const float64 y = 1 + fabs(normals.next(stream)) * k.scale;
            x = ceil(y);
            w = y * (2 - y) * k.inverse;
            if (x > k.d) continue;
        } else if (u <= k.c2 + 1) {
            x = -1.0;
        } else if (u <= k.c2 + 1 + 1) {
            x = 0.0;
        } else if (u <= k.c5) {
            x = 1.0;
            w = 0.01282051282051282;
        } else {
            const float64 v = -log(1.0 - stream.canonical());
            const float64 y = k.d + v * (2 * (2 * k.m + k.d)) / k.d;
            x = ceil(y);
            w = -k.d * k.inverse * (1 + y / 2);
        }
        const bool refused = w - e - x * k.log_mean > k.log_factorial - log_factorials(x + k.m + 1, factorials);
        if (!refused && x + k.m < 4294967295.5) return floor(x + k.m + 0.49999999999999989);
    }
}

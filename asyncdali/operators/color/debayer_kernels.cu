// debayer: interpolate the colours missing in a sensor's mosaic from neighbouring pixels (debayer_kernels.py).
// Macro: IN element type.
#include "kernel.cuh"
#include "debayer.py"

#define EDGE_AWARE 1
#define VNG 2
#define GRAY 3
#define RED_WEIGHT 4899
#define GREEN_WEIGHT 9617
#define BLUE_WEIGHT 1868

DEVICE int64 distance(int64 a, int64 b) { return a < b ? b - a : a - b; }
DEVICE int64 clamped(int64 a, int64 low, int64 high) { return a < low ? low : a > high ? high : a; }

struct Colour { int64 red, green, blue; };

struct Mosaic {
    const IN *pixels;
    int64 height, width;

    // The pixel at (y, x). Positions outside are reflected about the border pixels.
    DEVICE_MEMBER int64 operator()(int64 y, int64 x) const {
        y = y < 0 ? -y : y < height ? y : 2 * (height - 1) - y;
        x = x < 0 ? -x : x < width ? x : 2 * (width - 1) - x;
        return (int64)pixels[y * width + x];
    }
    DEVICE_MEMBER int64 vertical(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return distance(p(y - 1, x - 1), p(y + 1, x - 1)) + 2 * distance(p(y - 1, x), p(y + 1, x)) + distance(p(y - 1, x + 1), p(y + 1, x + 1));
    }
    DEVICE_MEMBER int64 horizontal(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return distance(p(y - 1, x - 1), p(y - 1, x + 1)) + 2 * distance(p(y, x - 1), p(y, x + 1)) + distance(p(y + 1, x - 1), p(y + 1, x + 1));
    }
    DEVICE_MEMBER int64 rising(int64 y, int64 x) const { return 2 * distance((*this)(y - 1, x + 1), (*this)(y + 1, x - 1)); }
    DEVICE_MEMBER int64 falling(int64 y, int64 x) const { return 2 * distance((*this)(y - 1, x - 1), (*this)(y + 1, x + 1)); }
    DEVICE_MEMBER int64 rising_more(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return rising(y, x) + distance(p(y - 1, x), p(y, x - 1)) + distance(p(y + 1, x), p(y, x + 1));
    }
    DEVICE_MEMBER int64 falling_more(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return falling(y, x) + distance(p(y - 1, x), p(y, x + 1)) + distance(p(y + 1, x), p(y, x - 1));
    }
    DEVICE_MEMBER int64 edges(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return p(y - 1, x) + p(y + 1, x) + p(y, x - 1) + p(y, x + 1);
    }
    DEVICE_MEMBER int64 diagonals(int64 y, int64 x) const {
        const Mosaic &p = *this;
        return p(y - 1, x - 1) + p(y - 1, x + 1) + p(y + 1, x - 1) + p(y + 1, x + 1);
    }
};

DEVICE Colour near(const Mosaic &p, int64 y, int64 x, bool blue_row, bool blue_column, bool by_edges) {
    const int64 left = p(y, x - 1), right = p(y, x + 1), top = p(y - 1, x), bottom = p(y + 1, x), own = p(y, x);
    if (blue_row != blue_column) {
        const int64 beside = (left + right + 1) >> 1, above = (top + bottom + 1) >> 1;
        return blue_row ? Colour{above, own, beside} : Colour{beside, own, above};
    }
    int64 green = (left + right + top + bottom + 2) >> 2;
    if (by_edges) green = distance(left, right) > distance(top, bottom) ? (top + bottom + 1) >> 1 : (left + right + 1) >> 1;
    const int64 third = (p.diagonals(y, x) + 2) >> 2;
    return blue_row ? Colour{third, green, own} : Colour{own, green, third};
}

DEVICE int64 gray(const Mosaic &p, int64 y, int64 x, bool blue_row, bool blue_column) {
    const int64 own = p(y, x), across = p(y, x - 1) + p(y, x + 1), down = p(y - 1, x) + p(y + 1, x);
    const int64 mine = blue_row ? BLUE_WEIGHT : RED_WEIGHT, other = blue_row ? RED_WEIGHT : BLUE_WEIGHT;
    const int64 total = blue_row != blue_column ? 4 * own * GREEN_WEIGHT + 2 * across * mine + 2 * down * other
                                                : 4 * own * mine + (across + down) * GREEN_WEIGHT + p.diagonals(y, x) * other;
    return (total + (1 << 15)) >> 16;
}

DEVICE int64 shifted(int64 own, int64 difference, float32 scale) {
    const float32 product = (float32)difference * scale, whole = truncated(product), rest = magnitude(product - whole);
    int64 step = (int64)whole;
    if (rest > 0.5f || (rest == 0.5f && (step & 1))) step += product < 0 ? -1 : 1;  // half to even
    return clamped(own + step, 0, 255);
}

// Interpolation with a variable number of gradients; the source is in debayer_kernels.py.
DEVICE Colour vng(const Mosaic &p, int64 y, int64 x, bool blue_row, bool blue_column) {
    const bool is_green = blue_row != blue_column;
    const int64 here_v = p.vertical(y, x), here_h = p.horizontal(y, x);
    int64 gradient[8] = {p.vertical(y - 1, x) + here_v, here_v + p.vertical(y + 1, x), p.horizontal(y, x - 1) + here_h, here_h + p.horizontal(y, x + 1), 0, 0, 0, 0};
    if (is_green) {
        const int64 rise = p.rising(y, x), fall = p.falling(y, x);
        gradient[4] = p.rising(y - 1, x) + p.rising(y - 1, x + 1) + rise + p.rising(y, x + 1);
        gradient[5] = rise + p.rising(y, x - 1) + p.rising(y + 1, x) + p.rising(y + 1, x - 1);
        gradient[6] = p.falling(y - 1, x) + p.falling(y - 1, x - 1) + fall + p.falling(y, x - 1);
        gradient[7] = fall + p.falling(y, x + 1) + p.falling(y + 1, x) + p.falling(y + 1, x + 1);
    } else {
        const int64 rise = p.rising_more(y, x), fall = p.falling_more(y, x);
        gradient[4] = p.rising_more(y - 1, x + 1) + rise;
        gradient[5] = rise + p.rising_more(y + 1, x - 1);
        gradient[6] = p.falling_more(y - 1, x - 1) + fall;
        gradient[7] = fall + p.falling_more(y + 1, x + 1);
    }
    int64 least = gradient[0], most = gradient[0];
    for (int k = 1; k < 8; ++k) {
        least = smaller(least, gradient[k]);
        most = larger(most, gradient[k]);
    }
    const int64 threshold = least + larger(most / 2, (int64)1), own = p(y, x);
    int64 count = 0, mine = 0, first = 0, second = 0;
    for (int k = 0; k < 8; ++k) {
        if (gradient[k] >= threshold) continue;
        const int64 dy = k == 0 || k == 4 || k == 6 ? -1 : k == 2 || k == 3 ? 0 : 1, dx = k < 2 ? 0 : k == 2 || k == 5 || k == 6 ? -1 : 1;
        const int64 near = p(y + dy, x + dx);
        ++count;
        if (!is_green) {
            mine += p(y + 2 * dy, x + 2 * dx) + own;
            if (k < 4) {
                first += 2 * near;
                second += p(y + dy - dx, x + dx - dy) + p(y + dy + dx, x + dx + dy);
            } else {
                first += p.edges(y + dy, x + dx) >> 1;
                second += 2 * near;
            }
        } else if (dx == 0) {
            mine += p(y + 2 * dy, x) + own;
            first += p(y + 2 * dy, x - 1) + p(y + 2 * dy, x + 1);
            second += 2 * near;
        } else if (dy == 0) {
            mine += p(y, x + 2 * dx) + own;
            first += 2 * near;
            second += p(y - 1, x + 2 * dx) + p(y + 1, x + 2 * dx);
        } else {
            mine += 2 * near;
            first += p(y + 2 * dy, x + dx) + p(y, x + dx);
            second += p(y + dy, x) + p(y + dy, x + 2 * dx);
        }
    }
    const float32 scale = 0.5f / (float32)count;
    const int64 a = shifted(own, first - mine, scale), b = shifted(own, second - mine, scale);
    if (is_green) return blue_row ? Colour{b, own, a} : Colour{a, own, b};
    return blue_row ? Colour{b, a, own} : Colour{own, a, b};
}

KERNEL debayer(const int64 *context) {
    const int64 algorithm = context[DEBAYER_ALGORITHM];
    FOR_SAMPLES(sample, context[DEBAYER_SAMPLES]) {
        const int64 *r = array<int64>(context, DEBAYER_RECORDS) + DEBAYER_RECORD_WORDS * sample;
        const int64 height = r[DEBAYER_RECORD_HEIGHT], width = r[DEBAYER_RECORD_WIDTH], channels = algorithm == GRAY ? 1 : 3;
        const IN *source = at<const IN>(address(context, DEBAYER_INPUTS, sample));
        IN *out = at<IN>(address(context, DEBAYER_OUTPUTS, sample));
        const bool everywhere = algorithm == VNG && height >= 8 && width >= 8;
        FOR_ITEMS(i, r[DEBAYER_RECORD_FRAMES] * height * width) {
            int64 rest = i;
            int64 x = take(rest, width), y = take(rest, height);
            if (height < 3 || width < 3) {
                for (int64 c = 0; c < channels; ++c) out[i * channels + c] = 0;
                continue;
            }
            if (!everywhere) {
                y = clamped(y, 1, height - 2);
                x = clamped(x, 1, width - 2);
            }
            const bool blue_row = ((y - 1 - r[DEBAYER_RECORD_BLUE_Y]) & 1) == 0, blue_column = ((x - 1 - r[DEBAYER_RECORD_BLUE_X]) & 1) == 0;
            const Mosaic mosaic{source + rest * height * width, height, width};
            if (algorithm == GRAY) {
                out[i] = (IN)gray(mosaic, y, x, blue_row, blue_column);
                continue;
            }
            const Colour colour = everywhere ? vng(mosaic, y, x, blue_row, blue_column) : near(mosaic, y, x, blue_row, blue_column, algorithm == EDGE_AWARE);
            out[3 * i] = (IN)colour.red;
            out[3 * i + 1] = (IN)colour.green;
            out[3 * i + 2] = (IN)colour.blue;
        }
    }
}

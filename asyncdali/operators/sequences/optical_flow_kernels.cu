// optical_flow: dense inverse search (optical_flow_kernels.py describes the method). Each pass of a level is one launch, because pixels,
// patches and pairs of frames are independent within a pass. Sums are added in the order of the compiled step.
#include "kernel.cuh"
#include "optical_flow.py"

#define PATCH 8
#define STRIDE 4
#define FARTHEST 1e4f
#define ALPHA 1.0f
#define OMEGA 1.6f
#define SMALL 1e-3f
#define PART 0.015625f
#define LEAST_DETERMINANT 1.0f

#ifdef HOST_BUILD
DEVICE float32 root(float32 x) { return std::sqrt(x); }
#else
DEVICE float32 root(float32 x) { return __fsqrt_rn(x); }
#endif
DEVICE int64 extent(int64 whole, int64 level) { return (whole + (1ll << level) - 1) >> level; }
DEVICE int64 clamped(int64 x, int64 most) { return smaller(larger(x, (int64)0), most); }
DEVICE float32 within(float32 x, float32 most) {
    x = x > 0 ? x : 0;
    return x < most ? x : most;
}
DEVICE float32 sane(float32 x) { return x > -FARTHEST && x < FARTHEST ? x : 0; }
DEVICE int64 patches_along(int64 length) { return (length - PATCH + STRIDE - 1) / STRIDE + 1; }

struct Flow { float32 u, v; };

// The extents of a sample's frames, and the work memory of one pair of frames.
struct Work {
    const int64 *context, *r;
    int64 sample, rows, columns, fine;
    float32 *m;

    DEVICE_MEMBER Work(const int64 *context, int64 sample) : context(context), sample(sample), m(nullptr) {
        r = array<int64>(context, FLOW_RECORDS) + FLOW_RECORD_WORDS * sample;
        rows = r[FLOW_RECORD_ROWS];
        columns = r[FLOW_RECORD_COLUMNS];
        fine = extent(rows, r[FLOW_RECORD_FINEST]) * extent(columns, r[FLOW_RECORD_FINEST]);
    }
    // Number of this sample's pairs of frames in the launch.
    DEVICE_MEMBER int64 pairs() const {
        return larger(smaller(context[FLOW_PAIRS], r[FLOW_RECORD_FRAMES] - 1 - context[FLOW_FIRST]), (int64)0);
    }
    DEVICE_MEMBER void take_pair(int64 slot) { m = at<float32>(context[FLOW_SCRATCH]) + r[FLOW_RECORD_BEGIN] + slot * r[FLOW_RECORD_WORK]; }
    DEVICE_MEMBER bool searched(int64 level) const { return level < r[FLOW_RECORD_LEVELS] && level >= r[FLOW_RECORD_FINEST]; }
    DEVICE_MEMBER int64 height(int64 level) const { return extent(rows, level); }
    DEVICE_MEMBER int64 width(int64 level) const { return extent(columns, level); }
    DEVICE_MEMBER float32 *picture(int64 which, int64 level) const {
        int64 begin = which * r[FLOW_RECORD_PYRAMID];
        for (int64 k = 0; k < level; ++k) begin += height(k) * width(k);
        return m + begin;
    }
    DEVICE_MEMBER float32 *prior() const { return m + 2 * r[FLOW_RECORD_PYRAMID]; }
    DEVICE_MEMBER float32 *found() const { return prior() + 2 * fine; }
    DEVICE_MEMBER float32 *planes() const { return found() + 2 * fine; }
    DEVICE_MEMBER float32 *patches() const { return planes() + 6 * fine; }
};

// The value of a picture at (y, x), interpolated linearly. Outside the picture, the border pixels are repeated.
DEVICE float32 value_at(const float32 *m, int64 h, int64 w, float32 y, float32 x) {
    y = within(y, (float32)(h - 1));
    x = within(x, (float32)(w - 1));
    const int64 top = smaller((int64)y, h - 2), left = smaller((int64)x, w - 2);
    const float32 fy = y - (float32)top, fx = x - (float32)left;
    const float32 *k = m + top * w + left;
    const float32 upper = k[0] * (1.0f - fx) + k[1] * fx, lower = k[w] * (1.0f - fx) + k[w + 1] * fx;
    return upper * (1.0f - fy) + lower * fy;
}

// The flow at (y, x), interpolated linearly.
DEVICE Flow flow_at(const float32 *m, int64 h, int64 w, float32 y, float32 x) {
    y = within(y, (float32)(h - 1));
    x = within(x, (float32)(w - 1));
    const int64 top = smaller((int64)y, h - 2), left = smaller((int64)x, w - 2);
    const float32 fy = y - (float32)top, fx = x - (float32)left;
    const float32 *k = m + 2 * (top * w + left), *below = k + 2 * w;
    return {(k[0] * (1.0f - fx) + k[2] * fx) * (1.0f - fy) + (below[0] * (1.0f - fx) + below[2] * fx) * fy,
            (k[1] * (1.0f - fx) + k[3] * fx) * (1.0f - fy) + (below[1] * (1.0f - fx) + below[3] * fx) * fy};
}

KERNEL flow_gray(const int64 *context) {
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        const int64 height = work.r[FLOW_RECORD_HEIGHT], width = work.r[FLOW_RECORD_WIDTH], channels = work.r[FLOW_RECORD_CHANNELS];
        const uint8 *source = at<const uint8>(address(context, FLOW_INPUTS, sample));
        FOR_ITEMS(i, work.pairs() * 2 * work.rows * work.columns) {
            int64 rest = i;
            const int64 x = take(rest, work.columns), y = take(rest, work.rows), second = rest & 1, slot = rest >> 1;
            work.take_pair(slot);
            const int64 frame = context[FLOW_FIRST] + slot + second;
            const uint8 *pixel = source + ((frame * height + smaller(y, height - 1)) * width + smaller(x, width - 1)) * channels;
            float32 gray = pixel[0];
            if (channels != 1) {
                const int64 red = context[FLOW_ORDER] ? pixel[2] : pixel[0], blue = context[FLOW_ORDER] ? pixel[0] : pixel[2];
                gray = (float32)((4899 * red + 9617 * (int64)pixel[1] + 1868 * blue + 8192) >> 14);
            }
            work.picture(second, 0)[y * work.columns + x] = gray;
        }
    }
}

KERNEL flow_halve(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (level >= work.r[FLOW_RECORD_LEVELS]) continue;
        const int64 h = work.height(level - 1), w = work.width(level - 1), rows = work.height(level), columns = work.width(level);
        FOR_ITEMS(i, work.pairs() * 2 * rows * columns) {
            int64 rest = i;
            const int64 x = take(rest, columns), y = take(rest, rows), second = rest & 1;
            work.take_pair(rest >> 1);
            const float32 *above = work.picture(second, level - 1);
            const float32 *top = above + 2 * y * w, *bottom = above + smaller(2 * y + 1, h - 1) * w;
            const int64 right = smaller(2 * x + 1, w - 1);
            const float32 upper = top[2 * x] + top[right], lower = bottom[2 * x] + bottom[right];
            work.picture(second, level)[y * columns + x] = 0.25f * (upper + lower);
        }
    }
}

// The initial flow of the coarsest level. Other levels start from the flow of the coarser level.
DEVICE Flow first_flow(const int64 *context, const Work &work, int64 pair, int64 level, int64 y, int64 x) {
    const int64 *r = work.r;
    if (context[FLOW_HINTED]) {
        const int64 cell = context[FLOW_HINT_GRID], height = r[FLOW_RECORD_HEIGHT], width = r[FLOW_RECORD_WIDTH];
        const int64 rows = (height + cell - 1) / cell, columns = (width + cell - 1) / cell;
        const int64 row = smaller(y << level, height - 1) / cell, column = smaller(x << level, width - 1) / cell;
        const float32 *hint = at<const float32>(address(context, FLOW_HINTS, work.sample)) + 2 * ((pair * rows + row) * columns + column);
        const float32 scale = 1.0f / (float32)(1ll << level);
        return {sane(hint[0]) * scale, sane(hint[1]) * scale};
    }
    if (!context[FLOW_TEMPORAL] || pair == 0) return {0, 0};
    const int64 finest = r[FLOW_RECORD_FINEST], step = level - finest, h = work.height(finest), w = work.width(finest);
    const float32 *before = work.found() + 2 * (smaller(y << step, h - 1) * w + smaller(x << step, w - 1));
    const float32 scale = 1.0f / (float32)(1ll << step);
    return {before[0] * scale, before[1] * scale};
}

KERNEL flow_begin(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (!work.searched(level)) continue;
        const int64 h = work.height(level), w = work.width(level);
        FOR_ITEMS(i, work.pairs() * h * w) {
            int64 rest = i;
            const int64 x = take(rest, w), y = take(rest, h);
            work.take_pair(rest);
            Flow flow;
            if (level == work.r[FLOW_RECORD_LEVELS] - 1) {
                flow = first_flow(context, work, context[FLOW_FIRST] + rest, level, y, x);
            } else {
                const float32 at_y = (float32)y * 0.5f - 0.25f, at_x = (float32)x * 0.5f - 0.25f;
                flow = flow_at(work.found(), work.height(level + 1), work.width(level + 1), at_y, at_x);
                flow = {2.0f * flow.u, 2.0f * flow.v};
            }
            float32 *out = work.prior() + 2 * (y * w + x);
            out[0] = flow.u;
            out[1] = flow.v;
        }
    }
}

DEVICE float32 sum(const float32 *lanes) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// The difference between a patch and the second picture, at the patch's position moved by a flow.
struct Misfit { float32 error, total, along_y, along_x; };

DEVICE Misfit misfit(const float32 *second, int64 h, int64 w, int64 y0, int64 x0, Flow flow, const float32 *t, const float32 *gy, const float32 *gx) {
    float32 y = (float32)y0 + flow.v, x = (float32)x0 + flow.u;
    const float32 reach = (float32)(1 - PATCH);
    y = y > reach ? y : reach;
    x = x > reach ? x : reach;
    y = smaller(y, (float32)(h - 1));
    x = smaller(x, (float32)(w - 1));
    const int64 top = (int64)floorf(y), left = (int64)floorf(x);
    const float32 fy = y - (float32)top, fx = x - (float32)left, ey = 1.0f - fy, ex = 1.0f - fx;
    float32 squares[PATCH] = {}, plain[PATCH] = {}, along_y[PATCH] = {}, along_x[PATCH] = {};
    for (int i = 0; i < PATCH; ++i) {
        const float32 *k = second + clamped(top + i, h - 1) * w, *below = second + clamped(top + i + 1, h - 1) * w;
        for (int j = 0; j < PATCH; ++j) {
            const int64 a = clamped(left + j, w - 1), b = clamped(left + j + 1, w - 1);
            const float32 upper = k[a] * ex + k[b] * fx, lower = below[a] * ex + below[b] * fx;
            const float32 d = (upper * ey + lower * fy) - t[PATCH * i + j];
            squares[j] += d * d;
            plain[j] += d;
            along_y[j] += d * gy[PATCH * i + j];
            along_x[j] += d * gx[PATCH * i + j];
        }
    }
    const float32 total = sum(plain);
    return {sum(squares) - total * total * PART, total, sum(along_y), sum(along_x)};
}

// The flow of a patch: gradient descent from the best of five initial flows, until the error no longer decreases.
DEVICE Flow searched(const float32 *first, const float32 *second, const float32 *prior, int64 h, int64 w, int64 py, int64 px, int64 descents) {
    const int64 y0 = smaller(py * STRIDE, h - PATCH), x0 = smaller(px * STRIDE, w - PATCH);
    float32 t[PATCH * PATCH], gy[PATCH * PATCH], gx[PATCH * PATCH], sy = 0, sx = 0, yy = 0, xy = 0, xx = 0;
    for (int64 i = 0; i < PATCH; ++i) {
        const float32 *row = first + (y0 + i) * w, *above = first + larger(y0 + i - 1, (int64)0) * w, *below = first + smaller(y0 + i + 1, h - 1) * w;
        for (int64 j = 0; j < PATCH; ++j) {
            const int64 x = x0 + j;
            const float32 a = 0.5f * (below[x] - above[x]), b = 0.5f * (row[smaller(x + 1, w - 1)] - row[larger(x - 1, (int64)0)]);
            t[PATCH * i + j] = row[x];
            gy[PATCH * i + j] = a;
            gx[PATCH * i + j] = b;
            sy += a;
            sx += b;
            yy += a * a;
            xy += a * b;
            xx += b * b;
        }
    }
    yy -= sy * sy * PART;
    xy -= sy * sx * PART;
    xx -= sx * sx * PART;
    Flow best = {0, 0};
    Misfit fit = {0, 0, 0, 0};
    for (int k = 0; k < 5; ++k) {
        const int64 y = clamped(y0 + PATCH / 2 + (k == 1 ? PATCH : k == 2 ? -PATCH : 0), h - 1);
        const int64 x = clamped(x0 + PATCH / 2 + (k == 3 ? PATCH : k == 4 ? -PATCH : 0), w - 1);
        const Flow flow = {prior[2 * (y * w + x)], prior[2 * (y * w + x) + 1]};
        if (k > 0 && flow.u == best.u && flow.v == best.v) continue;
        const Misfit found = misfit(second, h, w, y0, x0, flow, t, gy, gx);
        if (k == 0 || found.error < fit.error) {
            best = flow;
            fit = found;
        }
    }
    const float32 determinant = yy * xx - xy * xy;
    if (determinant < LEAST_DETERMINANT) return best;
    const Flow begun = best;
    float32 least = fit.error;
    for (int64 k = 0; k < descents; ++k) {
        const float32 by = fit.along_y - sy * fit.total * PART, bx = fit.along_x - sx * fit.total * PART;
        const Flow next = {best.u - (yy * bx - xy * by) / determinant, best.v - (xx * by - xy * bx) / determinant};
        fit = misfit(second, h, w, y0, x0, next, t, gy, gx);
        if (!(fit.error < least)) break;
        best = next;
        least = fit.error;
    }
    const bool near = magnitude(best.u - begun.u) < PATCH && magnitude(best.v - begun.v) < PATCH;
    return near ? best : begun;
}

KERNEL flow_search(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (!work.searched(level)) continue;
        const int64 h = work.height(level), w = work.width(level), across = patches_along(w), down = patches_along(h);
        FOR_ITEMS(i, work.pairs() * down * across) {
            int64 rest = i;
            const int64 px = take(rest, across), py = take(rest, down);
            work.take_pair(rest);
            const float32 *first = work.picture(0, level), *second = work.picture(1, level);
            const Flow flow = searched(first, second, work.prior(), h, w, py, px, context[FLOW_DESCENTS]);
            float32 *out = work.patches() + 2 * (py * across + px);
            out[0] = flow.u;
            out[1] = flow.v;
        }
    }
}

// The flow of a pixel: the weighted mean of the flows of all patches that cover it. A patch with a smaller error at the pixel weighs more.
KERNEL flow_spread(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (!work.searched(level)) continue;
        const int64 h = work.height(level), w = work.width(level), across = patches_along(w), down = patches_along(h);
        FOR_ITEMS(i, work.pairs() * h * w) {
            int64 rest = i;
            const int64 x = take(rest, w), y = take(rest, h);
            work.take_pair(rest);
            const float32 *second = work.picture(1, level), own = work.picture(0, level)[y * w + x];
            float32 total = 0, u = 0, v = 0;
            for (int64 py = larger(y - PATCH + STRIDE, (int64)0) / STRIDE; py < smaller(y / STRIDE + 2, down); ++py) {
                const int64 top = smaller(py * STRIDE, h - PATCH);
                if (y < top || y >= top + PATCH) continue;
                for (int64 px = larger(x - PATCH + STRIDE, (int64)0) / STRIDE; px < smaller(x / STRIDE + 2, across); ++px) {
                    const int64 left = smaller(px * STRIDE, w - PATCH);
                    if (x < left || x >= left + PATCH) continue;
                    const float32 *patch = work.patches() + 2 * (py * across + px);
                    const float32 away = magnitude(value_at(second, h, w, (float32)y + patch[1], (float32)x + patch[0]) - own);
                    const float32 weight = 1.0f / (away > 1.0f ? away : 1.0f);
                    total += weight;
                    u += weight * patch[0];
                    v += weight * patch[1];
                }
            }
            float32 *out = work.found() + 2 * (y * w + x);
            out[0] = u / total;
            out[1] = v / total;
        }
    }
}

// The coefficients of the refinement for each pixel. Planes 0 to 4: the factors uu, uv and vv of two equations and their right sides.
// Plane 5: the smoothness weight between the pixel and its neighbours.
KERNEL flow_equations(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (!work.searched(level)) continue;
        const int64 h = work.height(level), w = work.width(level), n = h * w;
        FOR_ITEMS(i, work.pairs() * n) {
            int64 rest = i;
            const int64 x = take(rest, w), y = take(rest, h), k = y * w + x;
            work.take_pair(rest);
            const float32 *first = work.picture(0, level), *second = work.picture(1, level), *found = work.found();
            const float32 u = found[2 * k], v = found[2 * k + 1], ty = (float32)y + v, tx = (float32)x + u;
            const int64 left = y * w + larger(x - 1, (int64)0), right = y * w + smaller(x + 1, w - 1);
            const int64 above = larger(y - 1, (int64)0) * w + x, below = smaller(y + 1, h - 1) * w + x;
            const float32 gx = 0.25f * ((value_at(second, h, w, ty, tx + 1.0f) - value_at(second, h, w, ty, tx - 1.0f)) + (first[right] - first[left]));
            const float32 gy = 0.25f * ((value_at(second, h, w, ty + 1.0f, tx) - value_at(second, h, w, ty - 1.0f, tx)) + (first[below] - first[above]));
            const float32 change = value_at(second, h, w, ty, tx) - first[k];
            const float32 norm = 1.0f / (gx * gx + gy * gy + 1.0f);
            const float32 data = norm / root(norm * change * change + SMALL), known = gx * u + gy * v - change;
            float32 *out = work.planes() + k;
            out[0] = data * gx * gx;
            out[n] = data * gx * gy;
            out[2 * n] = data * gy * gy;
            out[3 * n] = data * gx * known;
            out[4 * n] = data * gy * known;
            const float32 ux = 0.5f * (found[2 * right] - found[2 * left]), vx = 0.5f * (found[2 * right + 1] - found[2 * left + 1]);
            const float32 uy = 0.5f * (found[2 * below] - found[2 * above]), vy = 0.5f * (found[2 * below + 1] - found[2 * above + 1]);
            out[5 * n] = ALPHA / root((ux * ux + vx * vx) + (uy * uy + vy * vy) + SMALL);
        }
    }
}

// One step of red-black successive over-relaxation: update the pixels of one colour from their four neighbours of the other colour.
KERNEL flow_relax(const int64 *context) {
    const int64 level = context[FLOW_LEVEL];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        if (!work.searched(level)) continue;
        const int64 h = work.height(level), w = work.width(level), n = h * w;
        FOR_ITEMS(i, work.pairs() * n) {
            int64 rest = i;
            const int64 x = take(rest, w), y = take(rest, h), k = y * w + x;
            if (((y + x) & 1) != context[FLOW_COLOUR]) continue;
            work.take_pair(rest);
            const float32 *planes = work.planes();
            float32 *found = work.found(), weights = 0, us = 0, vs = 0;
            const float32 own = planes[5 * n + k];
            for (int side = 0; side < 4; ++side) {
                const int64 ny = y + (side == 0) - (side == 1), nx = x + (side == 2) - (side == 3);
                if (ny < 0 || ny >= h || nx < 0 || nx >= w) continue;
                const int64 other = ny * w + nx;
                const float32 weight = 0.5f * (own + planes[5 * n + other]);
                weights += weight;
                us += weight * found[2 * other];
                vs += weight * found[2 * other + 1];
            }
            float32 u = found[2 * k], v = found[2 * k + 1];
            const float32 xy = planes[n + k];
            u = (1.0f - OMEGA) * u + OMEGA * ((planes[3 * n + k] + us - xy * v) / (planes[k] + weights));
            v = (1.0f - OMEGA) * v + OMEGA * ((planes[4 * n + k] + vs - xy * u) / (planes[2 * n + k] + weights));
            found[2 * k] = u;
            found[2 * k + 1] = v;
        }
    }
}

// The mean flow of each cell of the output.
KERNEL flow_deliver(const int64 *context) {
    const int64 grid = context[FLOW_GRID];
    FOR_SAMPLES(sample, context[FLOW_SAMPLES]) {
        Work work(context, sample);
        const int64 *r = work.r, finest = r[FLOW_RECORD_FINEST], h = work.height(finest), w = work.width(finest);
        const int64 rows = (r[FLOW_RECORD_HEIGHT] + grid - 1) / grid, columns = (r[FLOW_RECORD_WIDTH] + grid - 1) / grid;
        const float32 scale = (float32)(1ll << finest), small = 1.0f / scale;
        float32 *out = at<float32>(address(context, FLOW_OUTPUTS, sample)) + 2 * context[FLOW_FIRST] * rows * columns;
        FOR_ITEMS(i, work.pairs() * rows * columns) {
            int64 rest = i, count = 0;
            const int64 column = take(rest, columns), row = take(rest, rows);
            work.take_pair(rest);
            float32 u = 0, v = 0;
            for (int64 y = row * grid; y < smaller((row + 1) * grid, r[FLOW_RECORD_HEIGHT]); ++y)
                for (int64 x = column * grid; x < smaller((column + 1) * grid, r[FLOW_RECORD_WIDTH]); ++x) {
                    const Flow flow = flow_at(work.found(), h, w, ((float32)y + 0.5f) * small - 0.5f, ((float32)x + 0.5f) * small - 0.5f);
                    u += flow.u;
                    v += flow.v;
                    ++count;
                }
            out[2 * i] = scale * u / (float32)count;
            out[2 * i + 1] = scale * v / (float32)count;
        }
    }
}

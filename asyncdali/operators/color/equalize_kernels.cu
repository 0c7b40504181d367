// equalize: count the values of parts of each plane, turn the counts of a plane into a look-up table, look all elements up. Several blocks
// of threads share a picture in the first and the last step (equalize.py).
#include "kernel.cuh"
#include "color_tables.py"

#define VALUES 256
#define MOST_PLANES 4  // planes that are counted at the same time
#define COPIES 8       // histograms of a block, one for each warp, so that warps do not wait for each other

DEVICE void count_one(uint32 &counter) { atomicAdd(&counter, 1u); }

// A part of a group of planes: packs [begin, end) of `count` elements at `source`. Packs are aligned in the output.
struct Part { int64 source, out, count, begin, end; int32 behind; };

DEVICE Part part_of(const int64 *context, int64 sample, const int64 *r, int64 group, int64 part) {
    const int64 count = r[EQUALIZE_RECORD_PLANES] * r[EQUALIZE_RECORD_PIXELS];
    Part p;
    p.source = address(context, EQUALIZE_GPU_INPUTS, sample) + group * count;
    p.out = address(context, EQUALIZE_GPU_OUTPUTS, sample) + group * count;
    p.count = count;
    p.behind = behind_pack<uint8>(p.out);
    const int64 parts = context[EQUALIZE_GPU_PARTS], packs = (count + p.behind + PACK - 1) / PACK, each = (packs + parts - 1) / parts;
    p.begin = smaller(part * each, packs);
    p.end = smaller(p.begin + each, packs);
    return p;
}

// The plane of element `i`. PLANES 0: their number is known at run time only.
template <int PLANES> DEVICE int32 plane_of(int64 i, int64 planes) {
    if constexpr (PLANES) return (int32)((uint64)i % PLANES);
    else return (int32)(i % planes);
}

// Count the elements of the planes from `first` on, at most MOST_PLANES, of a part.
template <int PLANES> DEVICE void count_part(const Part &p, int64 planes, int64 first, uint32 *counts) {
    for (int64 k = p.begin + threadIdx.x; k < p.end; k += blockDim.x) {
        const int64 i = PACK * k - p.behind;
        const Pack<uint8> pack = row_pack<uint8>(p.source, 1, i, p.count);
        int32 plane = plane_of<PLANES>(i < 0 ? 0 : i, planes);
        for (int j = 0; j < PACK; ++j) {
            if (i + j < 0 || i + j >= p.count) continue;
            const int64 counted = plane - first;
            if (PLANES || (counted >= 0 && counted < MOST_PLANES)) count_one(counts[counted * VALUES + pack.element[j]]);
            if (++plane == planes) plane = 0;
        }
    }
}

// The histograms of all parts: VALUES counts for each plane of a part.
KERNEL count_values(const int64 *context) {
    __shared__ uint32 counts[COPIES * MOST_PLANES * VALUES];
    const int64 parts = context[EQUALIZE_GPU_PARTS];
    FOR_SAMPLES(sample, context[EQUALIZE_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, EQUALIZE_GPU_RECORDS) + EQUALIZE_RECORD_WORDS * sample;
        const int64 planes = r[EQUALIZE_RECORD_PLANES];
        if (!r[EQUALIZE_RECORD_PIXELS]) continue;
        for (int64 k = blockIdx.x; k < r[EQUALIZE_RECORD_GROUPS] * parts; k += gridDim.x) {
            const int64 group = k / parts, part = k % parts;
            const Part p = part_of(context, sample, r, group, part);
            for (int64 first = 0; first < planes; first += MOST_PLANES) {
                const int32 together = (int32)smaller(planes - first, (int64)MOST_PLANES) * VALUES;
                for (int32 i = threadIdx.x; i < COPIES * MOST_PLANES * VALUES; i += blockDim.x) counts[i] = 0;
                __syncthreads();
                uint32 *own = counts + threadIdx.x / 32 % COPIES * MOST_PLANES * VALUES;
                if (planes == 1) count_part<1>(p, 1, 0, own);
                else if (planes == 3) count_part<3>(p, 3, 0, own);
                else count_part<0>(p, planes, first, own);
                __syncthreads();
                uint32 *to = at<uint32>(context[EQUALIZE_GPU_HISTOGRAMS]) +
                             VALUES * ((r[EQUALIZE_RECORD_FIRST] + group * planes) * parts + part * planes + first);
                for (int32 i = threadIdx.x; i < together; i += blockDim.x) {
                    uint32 total = 0;
                    for (int copy = 0; copy < COPIES; ++copy) total += counts[copy * MOST_PLANES * VALUES + i];
                    to[i] = total;
                }
                __syncthreads();
            }
        }
    }
}

// The look-up tables: each value maps to its rank among the elements, scaled to 0..255. A plane of a single value is unchanged. A thread
// computes one value of a plane.
KERNEL fill_tables(const int64 *context) {
    __shared__ uint64 sums[2 * VALUES];
    __shared__ uint64 of_lowest;
    const int64 parts = context[EQUALIZE_GPU_PARTS];
    const int32 value = threadIdx.x;
    FOR_SAMPLES(sample, context[EQUALIZE_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, EQUALIZE_GPU_RECORDS) + EQUALIZE_RECORD_WORDS * sample;
        const int64 planes = r[EQUALIZE_RECORD_PLANES], pixels = r[EQUALIZE_RECORD_PIXELS];
        if (!pixels) continue;
        for (int64 k = blockIdx.x; k < r[EQUALIZE_RECORD_GROUPS] * planes; k += gridDim.x) {
            const int64 group = k / planes, plane = k % planes;
            const uint32 *counts = at<const uint32>(context[EQUALIZE_GPU_HISTOGRAMS]) +
                                   VALUES * ((r[EQUALIZE_RECORD_FIRST] + group * planes) * parts + plane);
            uint64 count = 0;
            for (int64 part = 0; part < parts; ++part) count += counts[VALUES * part * planes + value];
            uint64 *from = sums, *to = sums + VALUES;
            from[value] = count;
            __syncthreads();
            for (int32 distance = 1; distance < VALUES; distance *= 2) {
                to[value] = from[value] + (value >= distance ? from[value - distance] : 0);
                __syncthreads();
                uint64 *other = from;
                from = to;
                to = other;
            }
            if (count && from[value] == count) of_lowest = count;
            __syncthreads();
            const int64 others = pixels - (int64)of_lowest;
            const float32 scale = 255.0f / (float32)others;
            const int64 before = (int64)(from[value] - of_lowest);
            uint8 *table = at<uint8>(context[EQUALIZE_GPU_TABLES]) + VALUES * (r[EQUALIZE_RECORD_FIRST] + k);
            table[value] = !others ? (uint8)value : from[value] < of_lowest ? 0 : (uint8)rintf((float32)before * scale);
            __syncthreads();
        }
    }
}

template <int PLANES> DEVICE void look_up(const Part &p, int64 planes, const uint8 *tables) {
    for (int64 k = p.begin + threadIdx.x; k < p.end; k += blockDim.x) {
        const int64 i = PACK * k - p.behind;
        Pack<uint8> pack = row_pack<uint8>(p.source, 1, i, p.count);
        int32 plane = plane_of<PLANES>(i < 0 ? 0 : i, planes);
        for (int j = 0; j < PACK; ++j) {
            if (i + j < 0 || i + j >= p.count) continue;
            pack.element[j] = tables[plane * VALUES + pack.element[j]];
            if (++plane == planes) plane = 0;
        }
        put(p.out, i, p.count, pack);
    }
}

KERNEL equalize(const int64 *context) {
    __shared__ uint8 shared[MOST_PLANES * VALUES];
    const int64 parts = context[EQUALIZE_GPU_PARTS];
    FOR_SAMPLES(sample, context[EQUALIZE_GPU_SAMPLES]) {
        const int64 *r = array<int64>(context, EQUALIZE_GPU_RECORDS) + EQUALIZE_RECORD_WORDS * sample;
        const int64 planes = r[EQUALIZE_RECORD_PLANES];
        if (!r[EQUALIZE_RECORD_PIXELS]) continue;
        for (int64 k = blockIdx.x; k < r[EQUALIZE_RECORD_GROUPS] * parts; k += gridDim.x) {
            const int64 group = k / parts;
            const Part p = part_of(context, sample, r, group, k % parts);
            const uint8 *tables = at<const uint8>(context[EQUALIZE_GPU_TABLES]) + VALUES * (r[EQUALIZE_RECORD_FIRST] + group * planes);
            if (planes <= MOST_PLANES) {
                for (int32 i = threadIdx.x; i < planes * VALUES; i += blockDim.x) shared[i] = tables[i];
                __syncthreads();
                if (planes == 1) look_up<1>(p, 1, shared);
                else if (planes == 3) look_up<3>(p, 3, shared);
                else look_up<0>(p, planes, shared);
                __syncthreads();
            } else {
                look_up<0>(p, planes, tables);
            }
        }
    }
}

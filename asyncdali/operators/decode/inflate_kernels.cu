// decoders.inflate: LZ4 blocks (github.com/lz4/lz4, doc/lz4_Block_format.md), as in inflate_kernels.py.
// The threads of a block decompress one chunk together. Every thread reads all tokens and copies its share of the bytes.
#include "kernel.cuh"
#include "inflate.py"

#define SOUND 0
#define BROKEN 1
#define LONGER 2
#define SHORTER 3
#define EXTENDED 15
#define LEAST_MATCH 4

// Complete the length `begun` of a token by the bytes from `i` on. The result is -1 if the length exceeds the data.
DEVICE int64 length_of(const uint8 *data, int64 size, int64 &i, int64 begun) {
    if (begun != EXTENDED) return begun;
    while (i < size) {
        const int64 part = data[i++];
        begun += part;
        if (part != 255) return begun;
    }
    return -1;
}

// Decompress a block of `size` bytes into `room` bytes, and set `written` to the number of bytes written. Invalid data causes no access
// outside the two buffers.
DEVICE int64 inflated(const uint8 *data, int64 size, uint8 *out, int64 room, int64 &written) {
    const int64 lane = threadIdx.x, lanes = blockDim.x;
    int64 i = 0, o = 0;
    while (i < size) {
        const int64 token = data[i++];
        int64 count = length_of(data, size, i, token >> 4);
        written = o;
        if (count < 0 || count > size - i) return BROKEN;
        int64 copied = smaller(count, room - o);
        for (int64 k = lane; k < copied; k += lanes) out[o + k] = data[i + k];
        i += count;
        o += copied;
        written = o;
        if (copied < count) return LONGER;
        if (i == size) return SOUND;  // the last sequence has literals only
        if (size - i < 2) return BROKEN;
        const int64 distance = (int64)data[i] | (int64)data[i + 1] << 8;
        i += 2;
        if (distance == 0 || distance > o) return BROKEN;
        count = length_of(data, size, i, token & 15);
        if (count < 0) return BROKEN;
        count += LEAST_MATCH;
        copied = smaller(count, room - o);
        __syncthreads();  // the match may read bytes that other threads have written
        // A match that overlaps its own output repeats the bytes before it.
        for (int64 k = lane; k < copied; k += lanes) out[o + k] = out[o - distance + (k < distance ? k : k % distance)];
        o += copied;
        written = o;
        if (copied < count) return LONGER;
    }
    return BROKEN;
}

KERNEL inflate(const int64 *context) {
    const bool exact = context[INFLATE_EXACT] != 0;
    FOR_SAMPLES(sample, context[INFLATE_SAMPLES]) {
        const int64 *r = array<int64>(context, INFLATE_RECORDS) + INFLATE_RECORD_WORDS * sample;
        const int64 room = r[INFLATE_RECORD_BYTES];
        const uint8 *source = at<const uint8>(address(context, INFLATE_INPUTS, sample));
        uint8 *target = at<uint8>(address(context, INFLATE_OUTPUTS, sample));
        for (int64 k = blockIdx.x; k < r[INFLATE_RECORD_CHUNKS]; k += gridDim.x) {
            const int64 place = r[INFLATE_RECORD_FIRST] + k;
            const int64 *chunk = array<int64>(context, INFLATE_CHUNKS) + INFLATE_CHUNK_WORDS * place;
            uint8 *out = target + room * k;
            int64 written = 0;
            int64 status = inflated(source + chunk[INFLATE_CHUNK_OFFSET], chunk[INFLATE_CHUNK_BYTES], out, room, written);
            if (status == LONGER && !exact) status = SOUND;
            if (status == SOUND && exact && written < room) status = SHORTER;
            for (int64 b = written + threadIdx.x; b < room; b += blockDim.x) out[b] = 0;
            if (threadIdx.x == 0) at<int64>(context[INFLATE_STATUSES])[place] = status;
        }
    }
}

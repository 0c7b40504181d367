// The location of numbers of samples: a PLACE of the table, starting at word `k`.
#include "kernel.cuh"
#include "place_tables.py"

DEVICE int64 place(const int64 *context, int k, int64 sample) {
    if (context[k + PLACE_ADDRESSES]) return address(context, k + PLACE_ADDRESSES, sample);
    return context[k + PLACE_BLOCK] + address(context, k + PLACE_OFFSETS, sample);
}

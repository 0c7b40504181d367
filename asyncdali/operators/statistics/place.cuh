// The address of a sample's intermediate results (means, variances, factors). The table's words from `k` on are a PLACE (place_tables.py).
#include "kernel.cuh"
#include "place_tables.py"

DEVICE int64 place(const int64 *context, int k, int64 sample) {
    if (context[k + PLACE_ADDRESSES]) return address(context, k + PLACE_ADDRESSES, sample);
    return context[k + PLACE_BLOCK] + address(context, k + PLACE_OFFSETS, sample);
}

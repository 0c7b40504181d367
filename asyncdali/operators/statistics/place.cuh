// Where numbers of samples are: at addresses (entry `k`), or, where that is 0, in one block (entry k + 1) at offsets in bytes (entry k + 2).
#include "kernel.cuh"

DEVICE int64 place(const int64 *context, int k, int64 sample) {
    return context[k] ? address(context, k, sample) : context[k + 1] + address(context, k + 2, sample);
}

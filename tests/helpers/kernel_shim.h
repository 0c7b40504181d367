// What a kernel needs of CUDA, for the system's C++ compiler: the threads of a block run one after another, or, in a kernel that waits for
// others (__syncthreads), as threads of the system.
#pragma once
#include <cmath>
#include <cstring>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

struct Dim { unsigned x, y, z; };
static thread_local Dim blockIdx, threadIdx;
static Dim gridDim, blockDim;

#define KERNEL extern "C" void
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define __restrict__ __restrict
#define __shared__ static
#define __ldg(p) (*(p))

static inline float host_half_to_float(unsigned short bits) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return (float)half;
}
static inline unsigned short host_float_to_half(float value) {
    _Float16 half = (_Float16)value;
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

class Barrier {
    std::mutex mutex;
    std::condition_variable turn;
    unsigned waiting = 0, round = 0;

  public:
    unsigned expected = 0;
    void wait() {
        std::unique_lock<std::mutex> lock(mutex);
        const unsigned mine = round;
        if (++waiting == expected) {
            waiting = 0;
            ++round;
            turn.notify_all();
        } else {
            turn.wait(lock, [&] { return round != mine; });
        }
    }
};
static Barrier barrier;
static bool waits = false;
#define __syncthreads() barrier.wait()

#ifdef USES_BARRIER
#define TOGETHER true
#else
#define TOGETHER false
#endif

#define HOST_ENTRY(kernel)                                                                                               \
    extern "C" void run_##kernel(const long long *context, long long grid_x, long long grid_y, long long block, long long) { \
        gridDim = {(unsigned)grid_x, (unsigned)grid_y, 1};                                                               \
        blockDim = {(unsigned)block, 1, 1};                                                                              \
        barrier.expected = (unsigned)block;                                                                              \
        for (unsigned y = 0; y < grid_y; ++y)                                                                            \
            for (unsigned x = 0; x < grid_x; ++x) {                                                                      \
                auto one = [=](unsigned t) {                                                                             \
                    blockIdx = {x, y, 0};                                                                                \
                    threadIdx = {t, 0, 0};                                                                               \
                    kernel(context);                                                                                     \
                };                                                                                                       \
                if (!TOGETHER) {                                                                                         \
                    for (unsigned t = 0; t < block; ++t) one(t);                                                         \
                } else {                                                                                                 \
                    std::vector<std::thread> threads;                                                                    \
                    for (unsigned t = 0; t < block; ++t) threads.emplace_back(one, t);                                   \
                    for (auto &thread : threads) thread.join();                                                          \
                }                                                                                                        \
            }                                                                                                            \
    }

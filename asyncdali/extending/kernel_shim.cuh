// The parts of CUDA that kernels use, for the system's C++ compiler.
#pragma once
#undef _FORTIFY_SOURCE  // its checks end a program that jumps to another stack
#include <cstring>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // no kernel calls the special functions of C++17, which took 0.07 s of each compilation
#include <cmath>

struct Dim { unsigned x, y, z; };
static thread_local Dim blockIdx, threadIdx, gridDim, blockDim;

#define KERNEL extern "C" void
#define KERNEL_OF(resident) KERNEL
#define DEVICE static inline
#define APART static
#define WHOLE_WORD static __attribute__((noinline, no_sanitize_address))
#define DEVICE_MEMBER inline
#define __restrict__ __restrict
#define __shared__ static thread_local
#define __ldg(p) (*(p))

// Shared memory begins with all bits set: NaN, -1, 255. The first thread of a block that reaches the declaration sets them.
static thread_local unsigned long long block_number;
#define POISON(name)                                                                                                     \
    {                                                                                                                    \
        static thread_local unsigned long long poisoned_in;                                                              \
        if (poisoned_in != block_number) std::memset((void *)&name, 0xff, sizeof(name));                                 \
        poisoned_in = block_number;                                                                                      \
    }

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (bits & 31));
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned out = 0;
    for (int k = 0; k < 4; ++k) out |= (unsigned)(bytes >> 8 * (selector >> 4 * k & 7) & 0xff) << 8 * k;
    return out;
}
static inline float __uint_as_float(unsigned bits) {
    float real;
    std::memcpy(&real, &bits, 4);
    return real;
}

static inline unsigned __float_as_uint(float real) {
    unsigned bits;
    std::memcpy(&bits, &real, 4);
    return bits;
}

// The threads of a block take turns, so no addition is interrupted.
template <class T> static inline T atomicAdd(T *number, T more) {
    const T before = *number;
    *number += more;
    return before;
}

// The sum, rounded towards zero.
static inline float __fadd_rz(float a, float b) {
    const double sum = (double)a + b;
    const float nearest = (float)sum;
    return std::fabs((double)nearest) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

// The sum, rounded down.
static inline float __fadd_rd(float a, float b) {
    const double sum = (double)a + b;
    const float nearest = (float)sum;
    return (double)nearest > sum ? std::nextafter(nearest, -INFINITY) : nearest;
}

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

// The threads of a block take turns on one thread of the system. In a kernel with barriers (__syncthreads), each thread of the block
// has its own stack and runs until it reaches a barrier or ends. So a run is deterministic, and a thread that misses a barrier is found.
#ifdef USES_BARRIER
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define LEAVE(kept, bottom, size) __sanitizer_start_switch_fiber(kept, bottom, size)
#define ARRIVE(kept, bottom, size) __sanitizer_finish_switch_fiber(kept, bottom, size)
#define SWITCH(from, to) swapcontext(&(from).first, &(to).first)
#else
#define LEAVE(kept, bottom, size) (void)0
#define ARRIVE(kept, bottom, size) (void)0
// swapcontext makes a system call, which took half of the time of kernels with barriers. A jump makes none.
#define SWITCH(from, to)                                                                                                 \
    if (!_setjmp((from).later)) {                                                                                        \
        if ((to).begun)                                                                                                  \
            _longjmp((to).later, 1);                                                                                     \
        else                                                                                                             \
            setcontext(&(to).first);                                                                                     \
    }
#endif

class Block {
    static const size_t STACK = 256 << 10, MOST = 1024;
    struct Fiber {
        ucontext_t first;
        jmp_buf later;
        char *stack;
        bool begun, ended;
        void *fake;
    };
    Fiber *fibers = (Fiber *)calloc(MOST, sizeof(Fiber)), host = {};
    const void *host_bottom = nullptr;
    size_t host_size = 0;
    void (*kernel)(const long long *) = nullptr;
    const long long *context = nullptr;
    unsigned current = 0;

    // Runs one thread of each block, block after block, on a stack of its own.
    static void enter() {
        Block &block = the();
        Fiber &mine = block.fibers[block.current];
        mine.begun = true;
        ARRIVE(nullptr, &block.host_bottom, &block.host_size);
        for (;;) {
            block.kernel(block.context);
            mine.ended = true;
            block.wait();
        }
    }
    void begin(Fiber &fiber) {
        fiber.stack = (char *)malloc(STACK);
        getcontext(&fiber.first);
        fiber.first.uc_stack.ss_sp = fiber.stack;
        fiber.first.uc_stack.ss_size = STACK;
        fiber.first.uc_link = nullptr;
        makecontext(&fiber.first, enter, 0);
    }

  public:
    Block() { host.begun = true; }
    ~Block() {
        for (unsigned t = 0; t < MOST; ++t) free(fibers[t].stack);
        free(fibers);
    }
    static Block &the() {
        static thread_local Block block;
        return block;
    }
    void wait() {
        Fiber &mine = fibers[current];
        LEAVE(&mine.fake, host_bottom, host_size);
        SWITCH(mine, host);
        ARRIVE(mine.fake, &host_bottom, &host_size);
    }
    void run(void (*what)(const long long *), const long long *table, unsigned threads) {
        kernel = what;
        context = table;
        for (unsigned t = 0; t < threads; ++t) {
            if (!fibers[t].stack) begin(fibers[t]);
            fibers[t].ended = false;
        }
        for (unsigned ended = 0; ended < threads;) {
            for (current = 0; current < threads; ++current) {
                threadIdx = {current, 0, 0};
                LEAVE(&host.fake, fibers[current].stack, STACK);
                SWITCH(host, fibers[current]);
                ARRIVE(host.fake, nullptr, nullptr);
                ended += fibers[current].ended;
            }
            if (ended && ended < threads) {
                fprintf(stderr, "%u of %u threads of a block ended before a barrier that the others wait at\n", ended, threads);
                abort();
            }
        }
    }
};
#define __syncthreads() Block::the().wait()
#define RUN_BLOCK(kernel, context, threads) Block::the().run(kernel, context, threads)
#else
#define RUN_BLOCK(kernel, context, threads)                                                                              \
    for (unsigned t = 0; t < threads; ++t) {                                                                             \
        threadIdx = {t, 0, 0};                                                                                           \
        kernel(context);                                                                                                 \
    }
#endif

#define HOST_ENTRY(kernel)                                                                                               \
    extern "C" void run_##kernel(const long long *context, long long grid_x, long long grid_y, long long block, long long) { \
        gridDim = {(unsigned)grid_x, (unsigned)grid_y, 1};                                                               \
        blockDim = {(unsigned)block, 1, 1};                                                                              \
        for (unsigned y = 0; y < grid_y; ++y)                                                                            \
            for (unsigned x = 0; x < grid_x; ++x) {                                                                      \
                blockIdx = {x, y, 0};                                                                                    \
                ++block_number;                                                                                          \
                RUN_BLOCK(kernel, context, (unsigned)block);                                                             \
            }                                                                                                            \
    }

// A stub of CUDA and nvJPEG for `python -m benchmarks.gpu_interpreter`. With the stub, a pipeline uses processor time only for Python.
//
// Memory is address space that is never touched; launches and copies do nothing. A batch of JPEGs sleeps `stub_pace` nanoseconds (the
// real call spins, without the interpreter lock). An event completes `stub_pace` after it was recorded. Threads therefore sleep and wake,
// and memory stays in use, as with a GPU.
#include <atomic>
#include <cstdint>
#include <cstddef>
#include <ctime>
#include <sys/mman.h>

#define STUB extern "C" __attribute__((visibility("default")))

static std::atomic<int64_t> handles{1000}, calls{0}, allocations{0}, pace{0}, event_pace{-1};

static int64_t counted(int64_t result) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return result;
}

STUB int64_t stub_calls() { return calls; }
STUB int64_t stub_allocations() { return allocations; }
STUB void stub_pace(int64_t nanoseconds) { pace = nanoseconds; }
STUB void stub_event_pace(int64_t nanoseconds) { event_pace = nanoseconds; }

// ------------------------------------------------------------------------------------------------------ functions of CuPy's runtime module

STUB int64_t stub_set_device(int64_t) { return counted(0); }
STUB int64_t stub_malloc(int64_t size) {
    ++allocations;
    return counted((int64_t)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}
STUB int64_t stub_host_alloc(int64_t size, int64_t) { return stub_malloc(size); }
STUB int64_t stub_free(int64_t) { return counted(0); }  // address space is never reused, because a measurement is short
STUB int64_t stub_create(int64_t) { return counted(++handles); }
STUB int64_t stub_destroy(int64_t) { return counted(0); }
static const int64_t EVENTS = 1 << 16;
static std::atomic<int64_t> recorded[EVENTS];  // time of the record, by handle

static int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t left(int64_t event) { return recorded[event % EVENTS] + (event_pace < 0 ? pace : event_pace) - now(); }

static void sleep(int64_t nanoseconds) {
    if (nanoseconds <= 0) return;
    const timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    nanosleep(&time, nullptr);
}

STUB int64_t stub_synchronize_stream(int64_t) { return counted(0); }
STUB int64_t stub_synchronize(int64_t event) { sleep(left(event)); return counted(0); }
STUB int64_t stub_record(int64_t event, int64_t) { recorded[event % EVENTS] = now(); return counted(0); }
STUB int64_t stub_query(int64_t event) { return counted(left(event) > 0 ? 600 : 0); }  // cudaErrorNotReady
STUB double stub_elapsed(int64_t, int64_t) { counted(0); return 1.0; }

// ------------------------------------------------------------------------------------------ functions of libcuda, which CuPy does not have

static thread_local void *current = nullptr;
STUB int cuCtxGetCurrent(void **context) { *context = current; return (int)counted(0); }
STUB int cuCtxSetCurrent(void *context) { current = context; return (int)counted(0); }

STUB int cuStreamWaitEvent(void *, void *, unsigned) { return (int)counted(0); }
STUB int cuEventRecord(void *event, void *) { recorded[(int64_t)event % EVENTS] = now(); return (int)counted(0); }
STUB int cuEventQuery(void *event) { return (int)counted(left((int64_t)event) > 0 ? 600 : 0); }
STUB int cuEventSynchronize(void *event) { sleep(left((int64_t)event)); return (int)counted(0); }
STUB int cuMemcpyAsync(uint64_t, uint64_t, size_t, void *) { return (int)counted(0); }
STUB int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) {
    return (int)counted(0);
}

// -------------------------------------------------------------------------------------------------------------------------------- nvJPEG

static int made(void **handle) { *handle = (void *)++handles; return (int)counted(0); }
STUB int nvjpegGetProperty(int kind, int *value) { *value = kind == 0 ? 13 : 0; return (int)counted(0); }
STUB int nvjpegCreateEx(int, void *, void *, unsigned, void **handle) { return made(handle); }
STUB int nvjpegDestroy(void *) { return (int)counted(0); }
STUB int nvjpegGetHardwareDecoderInfo(void *, unsigned *engines, unsigned *cores) { *engines = 7; *cores = 1; return (int)counted(0); }
STUB int nvjpegSetDeviceMemoryPadding(size_t, void *) { return (int)counted(0); }
STUB int nvjpegSetPinnedMemoryPadding(size_t, void *) { return (int)counted(0); }
STUB int nvjpegJpegStateCreate(void *, void **state) { return made(state); }
STUB int nvjpegJpegStateDestroy(void *) { return (int)counted(0); }
STUB int nvjpegJpegStreamCreate(void *, void **stream) { return made(stream); }
STUB int nvjpegJpegStreamDestroy(void *) { return (int)counted(0); }
STUB int nvjpegJpegStreamParseHeader(void *, const void *, size_t, void *) { return (int)counted(0); }
STUB int nvjpegDecodeBatchedInitialize(void *, void *, int, int, int) { return (int)counted(0); }
STUB int nvjpegDecodeBatchedPreAllocate(void *, void *, int, int, int, int, int) { return (int)counted(0); }
STUB int nvjpegDecodeBatchedSupported(void *, void *, int *) { return (int)counted(0); }
STUB int nvjpegDecodeBatched(void *, void *, const void *, const size_t *, void *, void *) {
    sleep(pace);
    return (int)counted(0);
}

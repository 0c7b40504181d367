// Counts how often threads enter the interpreter. Load this library before Python (LD_PRELOAD); Python must be a shared library.
//
// A thread that has waited or worked without the interpreter lock calls PyEval_RestoreThread to take the lock again. Extension modules
// (ctypes, queue, numpy, sockets, CuPy) and the library itself call that function by name, so the loader binds them to this one.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {  // functions of Python's library
void *PyEval_GetFrame();
void *PyFrame_GetCode(void *);
int PyFrame_GetLineNumber(void *);
void *PyFrame_GetBack(void *);
void Py_IncRef(void *);
void Py_DecRef(void *);
void *PyObject_GetAttrString(void *, const char *);
const char *PyUnicode_AsUTF8(void *);
}

static const int THREADS = 512;
struct Thread { std::atomic<long> id, entries; };
static Thread threads[THREADS];
static std::atomic<int> used{0};
static thread_local Thread *own = nullptr;
static std::atomic<bool> tracing{false};

static void count(void *caller) {
    if (own == nullptr) {
        own = &threads[used.fetch_add(1) % THREADS];
        own->id = syscall(SYS_gettid);
    }
    own->entries.fetch_add(1, std::memory_order_relaxed);
    if (tracing) {
        Dl_info info;
        std::memset(&info, 0, sizeof info);
        dladdr(caller, &info);
        const char *file = info.dli_fname ? std::strrchr(info.dli_fname, '/') : nullptr;
        std::fprintf(stderr, "ENTRY %ld %s", (long)own->id, file ? file + 1 : "?");
        void *frame = PyEval_GetFrame();  // borrowed; the next functions return references of the caller's own
        Py_IncRef(frame);
        for (int depth = 0; depth < 4 && frame; depth++) {
            void *code = PyFrame_GetCode(frame), *name = PyObject_GetAttrString(code, "co_filename");
            std::fprintf(stderr, " %s:%d", name ? PyUnicode_AsUTF8(name) : "?", PyFrame_GetLineNumber(frame));
            void *back = PyFrame_GetBack(frame);
            Py_DecRef(name), Py_DecRef(code), Py_DecRef(frame);
            frame = back;
        }
        Py_DecRef(frame);
        std::fprintf(stderr, "\n");
    }
}

extern "C" void PyEval_RestoreThread(void *state) {
    static void (*real)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
    real(state);
    count(__builtin_return_address(0));
}
extern "C" long entries_own() { return own == nullptr ? 0 : own->entries.load(); }
// For ctypes.CDLL(None): the number of known threads; id and number of entries of thread k.
extern "C" long entries_threads() { return used < THREADS ? used.load() : THREADS; }
extern "C" long entries_id(long k) { return threads[k].id; }
extern "C" long entries_count(long k) { return threads[k].entries; }
extern "C" void entries_trace(long on) { tracing = on != 0; }

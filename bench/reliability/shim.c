/* Preloaded library (LD_PRELOAD): counts the calls that write below a folder, makes one of them fail, and traces them.

   A call counts if its file is below the watched folder, or is this folder. Control it from the same process:
     shim_watch(folder)            folder to watch, absolute
     shim_arm(n, mode, error)      the n-th call from now on does what the mode says
     shim_calls(), shim_fired()    calls since shim_arm, and those that did not do what they should
     shim_trace(path), shim_mark() record all calls, and marks among them, in a file: see power_cut.py */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { OFF, ONCE, FROM, SHORT, KILL, TORN };
enum verdict { PASS, FAIL, HALF };
enum { DESCRIPTORS = 4096 };

static char root[PATH_MAX];
static size_t root_length;
static long calls, nth, fired;
static int mode, error, trace = -1;
static unsigned char watched[DESCRIPTORS];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) abort();
    return symbol;
}

void shim_watch(const char *folder) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    memset(watched, 0, sizeof watched);
}

void shim_arm(long number, int how, int with) { calls = fired = 0, nth = number, mode = how, error = with; }
long shim_calls(void) { return calls; }
long shim_fired(void) { return fired; }

/* Decide about a counted call. A short write waits for the next call that writes data. */
static enum verdict gate(int writes_data) {
    long number = __sync_add_and_fetch(&calls, 1);
    if (mode == OFF || number < nth || (number > nth && mode != FROM)) return PASS;
    if ((mode == SHORT || mode == TORN) && !writes_data) {
        nth++;
        return PASS;
    }
    fired++;
    if (mode == KILL) kill(getpid(), SIGKILL);
    if (mode == SHORT || mode == TORN) return HALF;
    errno = error;
    return FAIL;
}

static int watches(const char *path) {
    return root_length && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}
static int watches_fd(int fd) { return fd >= 0 && fd < DESCRIPTORS && watched[fd]; }

/* Write the absolute path of `path` below the open folder `at` to `out`; return whether it is watched. */
static int resolve(int at, const char *path, char *out) {
    char folder[PATH_MAX] = "";
    if (!path) return 0;
    if (path[0] != '/') {
        if (at == AT_FDCWD) {
            if (!getcwd(folder, sizeof folder)) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, folder, sizeof folder - 1);
            if (length < 0) return 0;
            folder[length] = 0;
        }
    }
    snprintf(out, PATH_MAX, folder[0] ? "%s/%s" : "%s%s", folder, path);
    return watches(out);
}

/* Trace record: kind, inode, offset, sizes of two texts or of the data, and these. */
struct __attribute__((packed)) record {
    char kind;
    uint64_t inode, offset;
    uint32_t first, second;
};

static void put(const void *data, size_t size) {
    if (REAL(write)(trace, data, size) != (ssize_t)size) abort();
}

static void record(char kind, uint64_t inode, uint64_t offset, const void *first, size_t a, const char *second) {
    if (trace < 0) return;
    int saved = errno;
    size_t b = second ? strlen(second) : 0;
    struct record head = {kind, inode, offset, (uint32_t)a, (uint32_t)b};
    put(&head, sizeof head);
    if (a) put(first, a);
    if (b) put(second, b);
    errno = saved;
}

static void record_path(char kind, const char *path) { record(kind, 0, 0, path, strlen(path), NULL); }

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_ino;
}

void shim_trace(const char *path) {
    if (trace >= 0) REAL(close)(trace);
    trace = path ? REAL(open)(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
}

void shim_mark(const char *text) { record_path('K', text); }

static int opened(int fd, const char *path, int flags, int existed) {
    if (fd < 0 || fd >= DESCRIPTORS) return fd;
    watched[fd] = 1;
    if (!existed && (flags & O_CREAT)) record('C', inode_of(fd), 0, path, strlen(path), NULL);
    if (existed && (flags & O_TRUNC)) record('T', inode_of(fd), 0, NULL, 0, NULL);
    return fd;
}

static int open_file(int at, const char *path, int flags, mode_t permissions) {
    char full[PATH_MAX];
    int (*next)(int, const char *, int, ...) = REAL(openat);
    if (!resolve(at, path, full)) {
        int fd = next(at, path, flags, permissions);
        if (fd >= 0 && fd < DESCRIPTORS) watched[fd] = 0;
        return fd;
    }
    int existed = access(full, F_OK) == 0;
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (writes && gate(0) == FAIL) return -1;
    return opened(next(at, path, flags, permissions), full, flags, existed);
}

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...) {                                  \
        va_list list;                                                             \
        va_start(list, flags);                                                    \
        mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                             \
        return open_file(AT_FDCWD, path, flags, permissions);                     \
    }
#define OPENAT(name)                                                              \
    int name(int at, const char *path, int flags, ...) {                          \
        va_list list;                                                             \
        va_start(list, flags);                                                    \
        mode_t permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                             \
        return open_file(at, path, flags, permissions);                           \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) watched[fd] = 0;
    return REAL(close)(fd);
}

static uint64_t position(int fd) {
    struct stat status;
    if (fcntl(fd, F_GETFL) & O_APPEND) return fstat(fd, &status) ? 0 : (uint64_t)status.st_size;
    return (uint64_t)lseek(fd, 0, SEEK_CUR);
}

static ssize_t after_write(int fd, const void *data, ssize_t written, uint64_t offset, enum verdict verdict) {
    if (written > 0) record('W', inode_of(fd), offset, data, (size_t)written, NULL);
    if (verdict == HALF && mode == TORN) kill(getpid(), SIGKILL);
    return written;
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t (*next)(int, const void *, size_t) = REAL(write);
    if (!watches_fd(fd)) return next(fd, data, size);
    enum verdict verdict = gate(1);
    if (verdict == FAIL) return -1;
    uint64_t offset = position(fd);
    return after_write(fd, data, next(fd, data, verdict == HALF ? (size + 1) / 2 : size), offset, verdict);
}

#define PWRITE(name, type)                                                                                     \
    ssize_t name(int fd, const void *data, size_t size, type offset) {                                         \
        ssize_t (*next)(int, const void *, size_t, type) = REAL(name);                                         \
        if (!watches_fd(fd)) return next(fd, data, size, offset);                                              \
        enum verdict verdict = gate(1);                                                                        \
        if (verdict == FAIL) return -1;                                                                        \
        ssize_t written = next(fd, data, verdict == HALF ? (size + 1) / 2 : size, offset);                     \
        return after_write(fd, data, written, (uint64_t)offset, verdict);                                      \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!watches_fd(fd)) return REAL(writev)(fd, parts, count);
    return count ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0; /* a short write, which callers expect */
}

/* Copies inside the kernel: the callers fall back on reading and writing. */
ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
    if (watches_fd(out)) return errno = ENOTSOCK, -1;
    return ((ssize_t(*)(int, int, off_t *, size_t))real("sendfile"))(out, in, offset, count);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    if (watches_fd(out)) return errno = ENOTSOCK, -1;
    return ((ssize_t(*)(int, int, off64_t *, size_t))real("sendfile64"))(out, in, offset, count);
}
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    if (watches_fd(out)) return errno = EXDEV, -1;
    return REAL(copy_file_range)(in, from, out, to, size, flags);
}

#define TRUNCATE(name, type)                                        \
    int name(int fd, type size) {                                   \
        int (*next)(int, type) = REAL(name);                        \
        if (!watches_fd(fd)) return next(fd, size);                 \
        if (gate(0) == FAIL) return -1;                             \
        int result = next(fd, size);                                \
        if (!result) record('T', inode_of(fd), (uint64_t)size, NULL, 0, NULL); \
        return result;                                              \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

static int sync_file(int fd, int (*next)(int)) {
    if (!watches_fd(fd)) return next(fd);
    if (gate(0) == FAIL) return -1;
    int result = next(fd);
    if (!result) record('S', inode_of(fd), 0, NULL, 0, NULL);
    struct stat status;
    char link[64], path[PATH_MAX];
    if (!result && !fstat(fd, &status) && S_ISDIR(status.st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) record('D', 0, 0, path, (size_t)length, NULL);
    }
    return result;
}
int fsync(int fd) { return sync_file(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_file(fd, REAL(fdatasync)); }
void sync(void) {
    REAL(sync)();
    record('A', 0, 0, NULL, 0, NULL);
}

#define ONE_PATH(name, kind, at, parameters, arguments)         \
    int name parameters {                                       \
        char full[PATH_MAX];                                    \
        if (!resolve(at, path, full)) return REAL(name) arguments; \
        if (gate(0) == FAIL) return -1;                         \
        int result = REAL(name) arguments;                      \
        if (!result) record_path(kind, full);                   \
        return result;                                          \
    }
ONE_PATH(unlink, 'U', AT_FDCWD, (const char *path), (path))
ONE_PATH(rmdir, 'X', AT_FDCWD, (const char *path), (path))
ONE_PATH(mkdir, 'M', AT_FDCWD, (const char *path, mode_t permissions), (path, permissions))
ONE_PATH(mkdirat, 'M', at, (int at, const char *path, mode_t permissions), (at, path, permissions))
ONE_PATH(unlinkat, (flags & AT_REMOVEDIR ? 'X' : 'U'), at, (int at, const char *path, int flags), (at, path, flags))

#define TWO_PATHS(name, kind, from, to, parameters, arguments)              \
    int name parameters {                                                   \
        char source[PATH_MAX], target[PATH_MAX];                            \
        int inside = resolve(from, old, source);                            \
        if (!(resolve(to, new, target) | inside)) return REAL(name) arguments; \
        if (gate(0) == FAIL) return -1;                                     \
        int result = REAL(name) arguments;                                  \
        if (!result) record(kind, 0, 0, source, strlen(source), target);    \
        return result;                                                      \
    }
TWO_PATHS(rename, 'R', AT_FDCWD, AT_FDCWD, (const char *old, const char *new), (old, new))
TWO_PATHS(renameat, 'R', from, to, (int from, const char *old, int to, const char *new), (from, old, to, new))
TWO_PATHS(link, 'L', AT_FDCWD, AT_FDCWD, (const char *old, const char *new), (old, new))
TWO_PATHS(linkat, 'L', from, to, (int from, const char *old, int to, const char *new, int flags),
          (from, old, to, new, flags))

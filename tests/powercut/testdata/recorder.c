// Preloaded, it appends what changes the files of a database to the journal that REAP_TEST_JOURNAL names: each write,
// truncation, sync and removal, in the order in which they have happened. SQLite's shared memory is none of it: it does
// not outlive a machine.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;

static const char *of_database(const char *path) {
	const char *name = strstr(path, "/db/state.db");
	if (!name || strchr(name + 4, '/') || strstr(name, "-shm"))
		return NULL;
	return name + 4;
}

// name_of returns the name of a database's file; NULL for other files.
static const char *name_of(int fd, char path[4096]) {
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, 4095);
	if (n < 0)
		return NULL;
	path[n] = 0;
	return of_database(path);
}

static void append(const void *data, size_t n) {
	static ssize_t (*next)(int, const void *, size_t);
	if (!next)
		next = dlsym(RTLD_NEXT, "write");
	while (n > 0) {
		ssize_t done = next(journal, data, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			abort(); // a journal with a hole proves nothing
		data = (const char *)data + done;
		n -= done;
	}
}

static void record(char what, const char *name, uint64_t at, const void *data, uint32_t n) {
	struct __attribute__((packed)) {
		char what;
		uint8_t name;
		uint64_t at;
		uint32_t n;
	} head = {what, strlen(name), at, n};
	if (journal < 0 && (journal = open(getenv("REAP_TEST_JOURNAL"), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600)) < 0)
		abort();
	append(&head, sizeof head);
	append(name, head.name);
	append(data, n);
}

// RECORDED does a call and records it if it has worked, and nothing comes between the two.
#define RECORDED(type, name, call, what, at, data, n) do { \
	int before = errno; \
	pthread_mutex_lock(&one_at_a_time); \
	errno = before; \
	type result = call; \
	before = errno; \
	if (result >= 0) \
		record(what, name, at, data, n); \
	pthread_mutex_unlock(&one_at_a_time); \
	errno = before; \
	return result; \
} while (0)

#define NEXT(type, function, ...) type (*next)(__VA_ARGS__) = dlsym(RTLD_NEXT, function); char path[4096]

#define SYNC(function) \
int function(int fd) { \
	NEXT(int, #function, int); \
	const char *name = name_of(fd, path); \
	if (!name) \
		return next(fd); \
	RECORDED(int, name, next(fd), 'S', 0, "", 0); \
}
SYNC(fsync)
SYNC(fdatasync)

#define PWRITE(function, offset) \
ssize_t function(int fd, const void *data, size_t n, offset at) { \
	NEXT(ssize_t, #function, int, const void *, size_t, offset); \
	const char *name = name_of(fd, path); \
	if (!name) \
		return next(fd, data, n, at); \
	RECORDED(ssize_t, name, next(fd, data, n, at), 'W', at, data, result); \
}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(function, offset) \
int function(int fd, offset size) { \
	NEXT(int, #function, int, offset); \
	const char *name = name_of(fd, path); \
	if (!name) \
		return next(fd, size); \
	RECORDED(int, name, next(fd, size), 'T', size, "", 0); \
}
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

// SQLite writes its files at offsets. If it ever does otherwise, the journal is not whole.
ssize_t write(int fd, const void *data, size_t n) {
	NEXT(ssize_t, "write", int, const void *, size_t);
	if (name_of(fd, path))
		abort();
	return next(fd, data, n);
}

int unlink(const char *file) {
	NEXT(int, "unlink", const char *);
	(void)path;
	const char *name = of_database(file);
	if (!name)
		return next(file);
	RECORDED(int, name, next(file), 'U', 0, "", 0);
}

// Preloaded, it lets the syncs and writes of the database fail while the files that REAP_TEST_DISK names with .sync and
// .write are there; the latter holds the error number.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int of_database(int fd) {
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return 0;
	path[n] = 0;
	return strstr(path, "/db/state.db") != NULL;
}

// failing returns the error number that the switch asks for; 0 if it is off.
static int failing(int fd, const char *what) {
	char path[4096];
	const char *base = getenv("REAP_TEST_DISK");
	if (!base || !of_database(fd))
		return 0;
	snprintf(path, sizeof path, "%s.%s", base, what);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	int number = EIO;
	if (fscanf(f, "%d", &number) != 1)
		number = EIO;
	fclose(f);
	return number;
}

#define FAIL(what) do { int e = failing(fd, what); if (e) { errno = e; return -1; } } while (0)

int fsync(int fd) {
	FAIL("sync");
	int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
	return next(fd);
}

int fdatasync(int fd) {
	FAIL("sync");
	int (*next)(int) = dlsym(RTLD_NEXT, "fdatasync");
	return next(fd);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at) {
	FAIL("write");
	ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
	return next(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at) {
	FAIL("write");
	ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
	return next(fd, buf, n, at);
}

ssize_t write(int fd, const void *buf, size_t n) {
	FAIL("write");
	ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
	return next(fd, buf, n);
}

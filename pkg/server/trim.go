package server

/*
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
static void trim(void) { malloc_trim(0); }
#else
static void trim(void) {}
#endif
*/
import "C"

// trim gives back to the system what the C library keeps of the memory that SQLite no
// longer uses. The C library does so by itself only at the end of an arena, and each thread
// that calls SQLite may have an arena of its own: an attack with objects of 1 MB left 40 MB
// in them.
func trim() { C.trim() }

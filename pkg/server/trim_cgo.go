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

// trim returns memory to the system that SQLite has freed and the C library still holds. The
// C library itself returns only memory at the end of an arena, and each thread that calls
// SQLite may have its own arena: an attack with objects of 1 MB left 40 MB in arenas.
func trim() { C.trim() }

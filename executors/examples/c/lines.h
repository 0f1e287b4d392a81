// The lines that come on a descriptor, however their bytes are cut.
#ifndef LINES_H
#define LINES_H

#include "memory.h"

enum { MAX_LINE_BYTES = 1 << 24 }; // without the line end (SPEC AOX-026)

typedef struct {
    int descriptor;
    bool has_ended, is_too_long;
    char *at; // what has been read and not been taken, from `from` on
    size_t from, searched, size, room;
} Lines;

enum line { NO_LINE, WHOLE_LINE, LONG_LINE };

// Takes the next line that has been read as a whole. It lives in the arena without its line end, a NUL behind it.
enum line next_line(Lines *lines, Arena *arena, char **line, size_t *size);

// Reads once what there is.
void read_more(Lines *lines);
void free_lines(Lines *lines);

#endif

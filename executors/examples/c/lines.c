#define _POSIX_C_SOURCE 200809L
#include "lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 16 };

// Takes bytes that are a line, or the rest of one that is too long.
static enum line take_line(Lines *lines, Arena *arena, size_t size, char **line)
{
    bool const is_too_long = lines->is_too_long || size > MAX_LINE_BYTES;
    if (!is_too_long) {
        *line = arena_take(arena, size + 1);
        memcpy(*line, lines->at + lines->from, size);
        (*line)[size] = '\0';
    }
    lines->is_too_long = false;
    return is_too_long ? LONG_LINE : WHOLE_LINE;
}

enum line next_line(Lines *lines, Arena *arena, char **line, size_t *size)
{
    size_t const pending = lines->size - lines->from;
    const char *end = pending > 0 ? memchr(lines->at + lines->searched, '\n', lines->size - lines->searched) : NULL;
    bool const is_last = end == NULL && lines->has_ended && (pending > 0 || lines->is_too_long);
    lines->searched = lines->size;
    if (end == NULL && !is_last) {
        if (pending > MAX_LINE_BYTES + 1) { // one more, which may be a CR
            lines->is_too_long = true;
            lines->from = lines->size;
        }
        return NO_LINE;
    }
    *size = end != NULL ? (size_t)(end - lines->at) - lines->from : pending;
    size_t const taken = *size + (end != NULL);
    if (*size > 0 && lines->at[lines->from + *size - 1] == '\r') {
        --*size;
    }
    enum line const kind = take_line(lines, arena, *size, line);
    lines->from += taken;
    lines->searched = lines->from;
    return kind;
}

void read_more(Lines *lines)
{
    if (lines->from > 0) {
        lines->size -= lines->from;
        memmove(lines->at, lines->at + lines->from, lines->size);
        lines->searched -= lines->from;
        lines->from = 0;
    }
    if (lines->room - lines->size < CHUNK_BYTES) {
        lines->room = 2 * lines->room + CHUNK_BYTES;
        lines->at = realloc(lines->at, lines->room);
        if (lines->at == NULL) {
            fputs("there is no memory left\n", stderr);
            abort();
        }
    }
    ssize_t const got = read(lines->descriptor, lines->at + lines->size, lines->room - lines->size);
    if (got > 0) {
        lines->size += (size_t)got;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        lines->has_ended = true;
    }
}

void free_lines(Lines *lines)
{
    free(lines->at);
    lines->at = NULL;
}

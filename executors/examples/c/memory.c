#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16 };

struct block {
    struct block *next;
    size_t used, room;
    max_align_t bytes[];
};

static struct block *new_block(struct block *next, size_t room)
{
    struct block *block = room < SIZE_MAX - sizeof *block ? calloc(1, sizeof *block + room) : NULL;
    if (block == NULL) {
        fputs("there is no memory left\n", stderr);
        abort();
    }
    block->next = next;
    block->room = room;
    return block;
}

void *arena_take(Arena *arena, size_t size)
{
    size_t const unit = _Alignof(max_align_t);
    size_t const whole = size < SIZE_MAX - unit ? (size + unit - 1) / unit * unit : SIZE_MAX;
    if (arena->blocks == NULL || arena->blocks->room - arena->blocks->used < whole) {
        arena->blocks = new_block(arena->blocks, whole > BLOCK_BYTES ? whole : BLOCK_BYTES);
    }
    char *taken = (char *)arena->blocks->bytes + arena->blocks->used;
    arena->blocks->used += whole;
    return taken;
}

void arena_free(Arena *arena)
{
    while (arena->blocks != NULL) {
        struct block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

void append(Buffer *buffer, Text more)
{
    if (more.size > buffer->room - buffer->size) {
        size_t const needed = more.size < SIZE_MAX / 4 ? buffer->size + more.size : SIZE_MAX;
        buffer->room = needed < SIZE_MAX / 2 ? 2 * needed : SIZE_MAX;
        char *moved = arena_take(buffer->arena, buffer->room);
        if (buffer->size > 0) {
            memcpy(moved, buffer->at, buffer->size);
        }
        buffer->at = moved;
    }
    if (more.size > 0) {
        memcpy(buffer->at + buffer->size, more.at, more.size);
        buffer->size += more.size;
    }
}

void append_string(Buffer *buffer, const char *string)
{
    append(buffer, text_of(string));
}

void append_number(Buffer *buffer, size_t number)
{
    char digits[3 * sizeof number + 1];
    append(buffer, (Text){digits, (size_t)snprintf(digits, sizeof digits, "%zu", number)});
}

Text text_of(const char *string)
{
    return (Text){string, strlen(string)};
}

Text after(Text whole, size_t size)
{
    return (Text){whole.at + size, whole.size - size};
}

Text text_in(const Buffer *buffer)
{
    return (Text){buffer->at, buffer->size};
}

// How many bytes a character has that begins with this one; 0 for none.
static size_t size_from(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    return first < 0xC2 || first > 0xF4 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t utf8_read(Text rest, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // by size: what is smaller is written shorter
    const unsigned char *at = (const unsigned char *)rest.at;
    size_t const size = rest.size > 0 ? size_from(at[0]) : 0;
    if (size == 0 || size > rest.size) {
        return 0;
    }
    *code = size == 1 ? at[0] : at[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (at[i] & 0x3Fu);
    }
    bool const is_surrogate = *code >= 0xD800 && *code < 0xE000;
    return *code >= least[size] && *code <= 0x10FFFF && !is_surrogate ? size : 0;
}

size_t utf8_write(char *out, uint32_t code)
{
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t const size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(marks[size] | code);
    return size;
}

bool is_utf8(Text rest)
{
    uint32_t code;
    for (size_t size; (size = utf8_read(rest, &code)) > 0;) {
        rest = after(rest, size);
    }
    return rest.size == 0;
}

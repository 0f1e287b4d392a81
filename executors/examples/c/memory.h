// Texts, memory that is freed at once, and texts that grow in it.
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of UTF-8 that somebody else owns. A string of JSON may hold U+0000, so the length counts.
typedef struct {
    const char *at;
    size_t size;
} Text;

// What is taken from an arena lives until all of it is freed. One that is all zero is empty.
typedef struct {
    struct block *blocks;
} Arena;

// Returns zeroed memory for any type. It never returns NULL: without memory the process ends by abort().
void *arena_take(Arena *arena, size_t size);
void arena_free(Arena *arena);

// A text that grows in an arena; its bytes may move whenever something is appended.
typedef struct {
    Arena *arena;
    char *at;
    size_t size, room;
} Buffer;

void append(Buffer *buffer, Text more);
void append_string(Buffer *buffer, const char *string);
void append_number(Buffer *buffer, size_t number);
Text text_of(const char *string);
Text after(Text whole, size_t size);
Text text_in(const Buffer *buffer);

// Reads the character that a text begins with. Returns its bytes, or 0 where there is none or it is not UTF-8.
size_t utf8_read(Text rest, uint32_t *code);
bool is_utf8(Text rest);
// Writes a character, which is up to four bytes, and returns how many they were.
size_t utf8_write(char *out, uint32_t code);

#endif

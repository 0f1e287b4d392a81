// Reads JSON as strictly as I-JSON wants it: no key twice, no large integer, no more than 64 levels.
// The NUL behind the line matches nothing that is looked for, so nothing is read beyond it.
#include "json.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };
static const double MAX_INTEGER = 9007199254740991.0;

typedef struct {
    Arena *arena;
    char *at;
} Reader;

static bool read_value(Reader *reader, Json *value, int depth);

static char skip_space(Reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
    return *reader->at;
}

static bool take(Reader *reader, const char *word)
{
    size_t const size = strlen(word);
    skip_space(reader);
    if (strncmp(reader->at, word, size) != 0) {
        return false;
    }
    reader->at += size;
    return true;
}

static int compare_keys(const void *left, const void *right)
{
    return compare_texts((*(Json *const *)left)->key, (*(Json *const *)right)->key);
}

// Sorts the fields, and tells whether no key is there twice.
static bool sort_fields(Reader *reader, Json *object)
{
    size_t i = 0;
    object->by_key = arena_take(reader->arena, object->count * sizeof(Json *));
    for (Json *field = object->first; field != NULL; field = field->next) {
        object->by_key[i++] = field;
    }
    qsort(object->by_key, object->count, sizeof(Json *), compare_keys);
    for (i = 1; i < object->count; i++) {
        if (compare_texts(object->by_key[i - 1]->key, object->by_key[i]->key) == 0) {
            return false;
        }
    }
    return true;
}

static bool read_members(Reader *reader, Json *value, int depth)
{
    const char *close = value->kind == JSON_OBJECT ? "}" : "]";
    Json **end = &value->first;
    for (reader->at++; !take(reader, close); value->count++) {
        Json *member = *end = arena_take(reader->arena, sizeof *member);
        end = &member->next;
        if (value->count > 0 && !take(reader, ",")) {
            return false;
        }
        if (value->kind == JSON_OBJECT
            && !(take(reader, "\"") && read_string(&reader->at, &member->key) && take(reader, ":"))) {
            return false;
        }
        if (!read_value(reader, member, depth + 1)) {
            return false;
        }
    }
    return value->kind == JSON_ARRAY || sort_fields(reader, value);
}

// Skips what stands before digits, and the digits, of which there has to be one.
static bool skip_digits(char **at, size_t before)
{
    size_t const count = strspn(*at + before, "0123456789");
    *at += before + count;
    return count > 0;
}

static bool read_number(Reader *reader, Json *value)
{
    char *at = reader->at + (*reader->at == '-');
    if (*at == '0') {
        at++;
    } else if (!skip_digits(&at, 0)) {
        return false;
    }
    const char *whole = at;
    if (*at == '.' && !skip_digits(&at, 1)) {
        return false;
    }
    if ((*at == 'e' || *at == 'E') && !skip_digits(&at, at[1] == '-' || at[1] == '+' ? 2 : 1)) {
        return false;
    }
    value->kind = JSON_NUMBER;
    value->text = (Text){reader->at, (size_t)(at - reader->at)};
    reader->at = at;
    double const number = number_of(value), most = at == whole ? MAX_INTEGER : DBL_MAX;
    return number >= -most && number <= most;
}

static bool read_value(Reader *reader, Json *value, int depth)
{
    switch (skip_space(reader)) {
    case '{':
    case '[':
        value->kind = *reader->at == '{' ? JSON_OBJECT : JSON_ARRAY;
        return depth <= MAX_DEPTH && read_members(reader, value, depth);
    case '"':
        value->kind = JSON_STRING;
        reader->at++;
        return read_string(&reader->at, &value->text);
    case 't':
    case 'f':
        value->kind = JSON_BOOLEAN;
        value->truth = *reader->at == 't';
        return take(reader, value->truth ? "true" : "false");
    case 'n':
        value->kind = JSON_NULL;
        return take(reader, "null");
    default:
        return read_number(reader, value);
    }
}

Json *read_object(Arena *arena, char *line, size_t size)
{
    size_t const mark = strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    Reader reader = {.arena = arena, .at = line + mark};
    Json *object = arena_take(arena, sizeof *object);
    bool const is_read = is_utf8((Text){line, size}) && skip_space(&reader) == '{' && read_value(&reader, object, 1);
    if (!is_read) {
        return NULL;
    }
    skip_space(&reader);
    return reader.at == line + size ? object : NULL;
}

// Values of JSON under the rules of I-JSON (SPEC 3): read from a line, looked at, and written.
#ifndef JSON_H
#define JSON_H

#include "memory.h"

enum kind { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

typedef struct Json Json;

// A value. It is part of the list of items or fields that it stands in, which `first` of the outer value begins.
struct Json {
    enum kind kind;
    bool truth;
    Text key; // where it is a field
    Json *next;
    union {
        Text text; // a string, or a number as it was written, so that 1.50 stays 1.50
        struct {
            Json *first;
            Json **by_key; // the fields of an object, sorted
            size_t count;
        };
    };
};

// Reads the one object of a line, or returns NULL. Behind the line stands a NUL. Its bytes are changed, for strings are
// read in place, and have to live as long as what is returned.
Json *read_object(Arena *arena, char *line, size_t size);

// Reads what stands behind an opening quote, and leaves `*at` behind the closing one.
bool read_string(char **at, Text *string);

// Takes the fields that are null out of an object: on the first level of an invocation they mean absent.
void drop_nulls(Json *object);

// Return a field: NULL, or a value that is null, where there is none.
const Json *find_field(const Json *object, Text key);
const Json *get(const Json *object, const char *key);

// Return the first item of an array or field of an object, or NULL; the others follow as `next`.
const Json *first_item(const Json *array);
const Json *first_field(const Json *object);

bool is_string(const Json *value, const char *expected);
double number_of(const Json *number);
// Compares as memcmp does.
int compare_texts(Text one, Text other);
// Tells whether two values are equal: 1.0 is 1, and the order of keys says nothing.
bool same(const Json *one, const Json *other);

// Append compact JSON, with the keys in the order in which they stood.
void append_json(Buffer *out, const Json *value);
void append_quoted(Buffer *out, Text string);
// Returns as many characters of a string as have room in JSON, quotes not counted.
Text beginning(Text string, size_t room);

#endif

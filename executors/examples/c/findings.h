// What is wrong with a value, as `path: message` (SPEC 6.3).
#ifndef FINDINGS_H
#define FINDINGS_H

#include "json.h"

// A place in a value, from the inside out; it is written only where something was found. NULL is the value itself, `$`.
typedef struct Path {
    const struct Path *outer;
    Text key; // of a field; NULL where it is an item
    size_t index;
} Path;

typedef struct {
    Arena *arena;
    bool names_missing; // a missing field is found where it would be, not in the object that lacks it
    size_t count;
    Buffer list, message; // all of them as items of JSON, and for people
} Findings;

Findings no_findings(Arena *arena);
// Adds one; beyond what no event has room for, nothing.
void note(Findings *findings, Text found);
// Adds `path: message`. What the message shows at its end is JSON, or the beginning of it.
void report(Findings *findings, const Path *path, const char *message);
void report_value(Findings *findings, const Path *path, const char *message, const Json *shown);
void report_key(Findings *findings, const Path *path, const char *message, Text key);

#endif

// Whether an invocation can be performed (SPEC 2, 4 and 8).
#ifndef REFUSAL_H
#define REFUSAL_H

#include "json.h"

// Why a run fails.
typedef struct {
    const char *type; // of the registry (SPEC 6.2); NULL where nothing is wrong
    const char *origin;
    int exit_code;
    Text message;
    Text details; // a field or two of the error object as JSON, a comma before each
} Fault;

// Returns the error that an invocation ends with before any work.
Fault refusal(Arena *arena, const Json *asked);

#endif

// The events of one run, in order.
#ifndef RUN_H
#define RUN_H

#include "refusal.h"

#define EXECUTOR_JSON "{\"name\":\"c\",\"version\":\"0.1.0\"}"

typedef struct {
    Arena *arena;
    int descriptor; // where events go
    Text identity;  // session_id and run_id, as they stand in every event
    size_t seq, max_bytes;
} Run;

// Begins a run, which `asked` names; it is NULL where nothing could be read.
Run begin_run(Arena *arena, int descriptor, const Json *asked);
void emit_started(Run *run);
void emit_result(Run *run, Text answer);
void emit_failure(Run *run, const Fault *fault);

#endif

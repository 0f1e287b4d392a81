// What the agent receives (SPEC 8.2).
#ifndef INPUTS_H
#define INPUTS_H

#include "json.h"

// Returns the prompt, or the <inputs> block, of an invocation that is not refused.
Text agent_text(Arena *arena, const Json *asked);

// Appends a text in which no tag of the block begins: its `<` becomes `&lt;`.
void append_without_tags(Buffer *out, Text body);

#endif

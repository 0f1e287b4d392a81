// The forms of invocations and of schemas, written as schemas.
#ifndef RULES_H
#define RULES_H

#include "json.h"

extern const char INVOCATION[], PROGRAM[], REMOTE[], PROMPT[], SCHEMA[];

const Json *read_rule(Arena *arena, const char *rule);

#endif

// The form of an invocation (SPEC 4).
#ifndef INVOCATION_H
#define INVOCATION_H

#include "findings.h"

// Returns the major part of a version such as 3.0; without bytes where it is none.
Text major_of(const Json *version);

void check_invocation(Findings *problems, const Json *asked);

#endif

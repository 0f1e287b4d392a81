// The part of JSON Schema Draft-7 that this executor judges: small, and never slow.
#ifndef SCHEMA_H
#define SCHEMA_H

#include "findings.h"

// Finds each way in which a value breaks a schema.
void check(Findings *findings, const Json *value, const Json *schema, const Path *here);

// Finds what makes a schema none. `form` is what a schema itself has to keep.
void check_schema(Findings *flaws, const Json *schema, const Json *form, const Path *here);

// Finds the keywords of a schema that are not judged here.
void find_not_judged(Findings *keywords, const Json *schema, const Json *form);

#endif

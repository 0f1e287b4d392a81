// Where events go: what was stdout when the process began.
#ifndef EVENTS_H
#define EVENTS_H

#include "memory.h"

// Moves stdout away and returns where to. Descriptors 0 to 2 are there from then on, and 1 is stderr, so that whatever
// prints, prints there.
int move_stdout(void);

// Writes all of it, however slow the reader is. Ends the process where it cannot be written.
void write_all(int descriptor, Text bytes);

#endif

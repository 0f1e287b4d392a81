// What the process waits for besides stdin: SIGTERM, and the end of the work. Each wakes it by a byte in a pipe, so
// that none is lost between looking and waiting.
#ifndef WAKE_H
#define WAKE_H

#include "lines.h"

enum wake { STDIN_READ = 'i', SIGTERM_CAME = 't', WORK_DONE = 'w' };

// Sets up the pipe, and lets SIGTERM write to it. Tells whether that worked.
bool prepare_waking(void);

// May be called from a signal handler and from any thread.
void wake_up(enum wake why);

// Waits for one of them. `lines` are read where there is something to read; with NULL stdin is left alone.
enum wake wait_for(Lines *lines);

#endif

// The work of a run: put your own into `perform` in work.c.
#ifndef WORK_H
#define WORK_H

#include "memory.h"

#include <pthread.h>

// A thread that answers while the run listens. It wakes the process with WORK_DONE; only then `answer` may be read.
typedef struct {
    pthread_t thread;
    Arena arena;
    Text asked, answer;
} Work;

bool begin_work(Work *work);
void end_work(Work *work); // joins the thread

#endif

#define _POSIX_C_SOURCE 200809L
#include "work.h"

#include "wake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void linger(double seconds)
{
    if (seconds > 0) {
        double const most = 1e9, bounded = seconds < most ? seconds : most;
        struct timespec rest = {.tv_sec = (time_t)bounded};
        rest.tv_nsec = (long)((bounded - (double)rest.tv_sec) * 1e9);
        while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
        }
    }
}

// A real executor would ask its model or start its program, with memory from the arena; these are hooks of the suite.
// It is not told of a cancel: the process ends. A program that it starts has to end with it.
static Text perform(Arena *arena, Text asked)
{
    (void)arena;
    if (getenv("AO_CONFORM_NOISE") != NULL) {
        printf("noise of a library\n");
        if (system("echo noise of a program") != 0) {
            fputs("there is no echo\n", stderr);
        }
    }
    const char *seconds = getenv("AO_CONFORM_LINGER_SECONDS");
    linger(seconds != NULL ? strtod(seconds, NULL) : 0);
    return asked;
}

static void *run_work(void *given)
{
    Work *work = given;
    work->answer = perform(&work->arena, work->asked);
    wake_up(WORK_DONE);
    return NULL;
}

bool begin_work(Work *work)
{
    return pthread_create(&work->thread, NULL, run_work, work) == 0;
}

void end_work(Work *work)
{
    pthread_join(work->thread, NULL);
}

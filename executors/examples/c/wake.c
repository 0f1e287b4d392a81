#define _POSIX_C_SOURCE 200809L
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ends[2]; // of the pipe: to read from, to write to

static void note_sigterm(int number)
{
    int const before = errno;
    (void)number;
    wake_up(SIGTERM_CAME);
    errno = before;
}

bool prepare_waking(void)
{
    struct sigaction action = {.sa_handler = note_sigterm, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (pipe(ends) != 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[i], F_SETFL, O_NONBLOCK) != 0) {
            return false;
        }
    }
    return sigaction(SIGTERM, &action, NULL) == 0;
}

void wake_up(enum wake why)
{
    char const byte = (char)why;
    while (write(ends[1], &byte, 1) < 0 && errno == EINTR) {
    }
}

enum wake wait_for(Lines *lines)
{
    struct pollfd watched[] = {
        {.fd = ends[0], .events = POLLIN},
        {.fd = lines != NULL && !lines->has_ended ? lines->descriptor : -1, .events = POLLIN},
    };
    for (;;) {
        char byte;
        if (poll(watched, 2, -1) < 0) {
            if (errno != EINTR) {
                perror("poll");
                abort();
            }
        } else if (read(ends[0], &byte, 1) == 1) {
            return (enum wake)byte;
        } else if (watched[1].revents != 0) {
            read_more(lines);
            return STDIN_READ;
        }
    }
}

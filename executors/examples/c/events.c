#define _POSIX_C_SOURCE 200809L
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int move_stdout(void)
{
    int open_one;
    do {
        open_one = open("/dev/null", O_RDWR);
    } while (open_one >= 0 && open_one <= STDERR_FILENO);
    close(open_one);
    int const events = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (events < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        perror("stdout");
        exit(EXIT_FAILURE);
    }
    return events;
}

void write_all(int descriptor, Text bytes)
{
    while (bytes.size > 0) {
        ssize_t const written = write(descriptor, bytes.at, bytes.size);
        if (written >= 0) {
            bytes = after(bytes, (size_t)written);
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){.fd = descriptor, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            perror("stdout");
            _exit(EXIT_FAILURE);
        }
    }
}

// An executor of the AO protocol 3.0 in C, without libraries: it answers with what it was asked.
// lines.c and reader.c read, refusal.c says whether an invocation can be performed, inputs.c what the agent receives,
// work.c answers, run.c says what happened. This file is the story: the line, what follows it, and the end.
#define _POSIX_C_SOURCE 200809L
#include "events.h"
#include "inputs.h"
#include "lines.h"
#include "run.h"
#include "wake.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_REFUSED = 64, EXIT_CANCELLED = 130 };

static Fault failed(const char *type, const char *origin, int exit_code, const char *message)
{
    return (Fault){type, origin, exit_code, text_of(message), text_of("")};
}

// Waits for the first line that is not blank, and judges it. SIGTERM before that ends the process.
static Fault read_invocation(Lines *lines, Arena *arena, const Json **asked)
{
    char *line = NULL;
    size_t size = 0;
    enum line kind = NO_LINE;
    while (kind == NO_LINE || (kind == WHOLE_LINE && strspn(line, " \t\r") == size)) {
        kind = next_line(lines, arena, &line, &size);
        if (kind == NO_LINE && lines->has_ended) {
            return failed("invalid_json", "caller", EXIT_REFUSED, "stdin ended before an invocation came");
        }
        if (kind == NO_LINE && wait_for(lines) == SIGTERM_CAME) {
            exit(EXIT_SUCCESS);
        }
    }
    if (kind == LONG_LINE) {
        Fault fault = failed("invocation_too_large", "caller", EXIT_REFUSED, "the line is longer than 16 MiB");
        fault.details = text_of(",\"details\":{\"limit_bytes\":16777216}");
        return fault;
    }
    Json *object = read_object(arena, line, size);
    if (object == NULL) {
        return failed("invalid_json", "caller", EXIT_REFUSED, "the line is no object of I-JSON (SPEC 3)");
    }
    drop_nulls(object);
    *asked = object;
    return refusal(arena, object);
}

// Tells whether the control lines that have been read, or the end of them, cancel the run.
static bool is_cancelled(Lines *lines)
{
    Arena arena = {0};
    bool found = false;
    char *line;
    size_t size;
    for (enum line kind; !found && (kind = next_line(lines, &arena, &line, &size)) != NO_LINE;) {
        const Json *control = kind == WHOLE_LINE ? read_object(&arena, line, size) : NULL;
        if (control != NULL && is_string(get(control, "type"), "cancel")) {
            enum kind const reason = get(control, "reason")->kind;
            found = reason == JSON_NULL || reason == JSON_STRING;
        }
    }
    arena_free(&arena);
    struct stat input;
    bool const is_file = fstat(lines->descriptor, &input) == 0 && S_ISREG(input.st_mode);
    return found || (lines->has_ended && !is_file);
}

static int answer(Run *run, Lines *lines, const Json *asked)
{
    bool const listens = is_string(get(get(asked, "control"), "stdin"), "open");
    Work work = {.asked = agent_text(run->arena, asked)};
    if (!begin_work(&work)) {
        Fault const fault = failed("internal_error", "executor", EXIT_FAILURE, "no thread could be started");
        emit_failure(run, &fault);
        return fault.exit_code;
    }
    enum wake why = STDIN_READ;
    while (why != WORK_DONE) {
        if (why == SIGTERM_CAME || (listens && is_cancelled(lines))) {
            Fault const fault = failed("cancelled", "caller", EXIT_CANCELLED, "the run was cancelled");
            emit_failure(run, &fault);
            _exit(fault.exit_code); // the thread is still at work: nothing that it uses may be let go
        }
        why = wait_for(listens ? lines : NULL);
    }
    end_work(&work);
    emit_result(run, work.answer);
    arena_free(&work.arena);
    return EXIT_SUCCESS;
}

static int serve(int events)
{
    Arena arena = {0};
    Lines lines = {.descriptor = STDIN_FILENO};
    const Json *asked = NULL;
    Fault const fault = read_invocation(&lines, &arena, &asked);
    Run run = begin_run(&arena, events, asked);
    int exit_code = fault.exit_code;
    emit_started(&run);
    if (fault.type != NULL) {
        emit_failure(&run, &fault);
    } else {
        exit_code = answer(&run, &lines, asked);
    }
    free_lines(&lines);
    arena_free(&arena);
    return exit_code;
}

int main(int count, char **arguments)
{
    int const events = move_stdout();
    if (count == 2 && strcmp(arguments[1], "describe") == 0) {
        static const char description[] = "{\"schema_versions\":[\"3.0\"],\"executor\":" EXECUTOR_JSON
                                          ",\"capabilities\":{\"cancel\":true}}\n";
        write_all(events, text_of(description));
        return EXIT_SUCCESS;
    }
    if (count > 1 || isatty(STDIN_FILENO)) {
        fputs("usage: ao-c-exec < invocation.json    or: ao-c-exec describe\n", stderr);
        return EXIT_USAGE;
    }
    if (!prepare_waking()) {
        perror("pipe");
        return EXIT_FAILURE;
    }
    return serve(events);
}

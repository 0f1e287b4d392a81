// An executor of the AO protocol 3.0: one JSON line in, JSON lines out. Put your agent into `answer`.
// Build: cc -o ao-c-exec ao-c-exec.c -ljansson
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *NAME = "c", *VERSION = "0.1.0";
static FILE *events;

// Returns the agent's answer to a prompt as a JSON string; NULL, with `*problem` set, becomes a failure.
static json_t *answer(const char *prompt, size_t length, const char **problem) {
    json_t *text = json_stringn(prompt, length);
    if (text == NULL) *problem = "out of memory";
    return text;
}

// Writes one line and frees the document.
static void emit(json_t *document) {
    int failed = document == NULL || json_dumpf(document, events, JSON_COMPACT) != 0;
    if (failed || fputc('\n', events) == EOF || fflush(events) == EOF) {
        fprintf(stderr, "the event cannot be written: %s\n", strerror(errno));
        exit(1);
    }
    json_decref(document);
}

static void fail(const char *type, const char *message, int code) {
    emit(json_pack("{s:s, s:{s:s, s:s}}", "event_type", "failure", "error", "type", type, "message", message));
    exit(code);
}

// Keeps stdout for events: whatever else is printed, by a library or a child, goes to stderr.
static void separate_stdout(void) {
    int descriptor = dup(STDOUT_FILENO);
    events = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (events == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        perror("stdout");
        exit(1);
    }
}

int main(int argc, char **argv) {
    separate_stdout();
    if (argc == 2 && strcmp(argv[1], "describe") == 0) {
        emit(json_pack("{s:[s], s:{s:s, s:s}}", "schema_versions", "3.0", "executor", "name", NAME, "version", VERSION));
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "usage: %s [describe]\n", argv[0]);
        return 2;
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getline(&line, &room, stdin);
    emit(json_pack("{s:s}", "event_type", "run_started"));
    if (length < 0) fail("invalid_json", "stdin ended before there was a line", 64);

    json_error_t error;
    json_t *invocation = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, &error);
    if (invocation == NULL) fail("invalid_json", error.text, 64);
    const char *version = json_string_value(json_object_get(invocation, "schema_version"));
    if (version == NULL || strncmp(version, "3.", 2) != 0) {
        fail("unsupported_schema_version", "only version 3.x is supported", 64);
    }
    json_t *prompt = json_object_get(invocation, "prompt");
    if (!json_is_string(prompt)) fail("invalid_invocation", "the invocation has no prompt", 64);

    const char *problem = "";
    json_t *text = answer(json_string_value(prompt), json_string_length(prompt), &problem);
    if (text == NULL) fail("internal_error", problem, 1);
    emit(json_pack("{s:s, s:o}", "event_type", "result", "result_text", text));
    json_decref(invocation);
    free(line);
    return 0;
}

#define _POSIX_C_SOURCE 200809L
#include "run.h"

#include "events.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double MIN_EVENT_BYTES = 4096, MAX_EVENT_BYTES = 1048576, MOST_EVENT_BYTES = 1 << 30;
enum { SHORT_MESSAGE_BYTES = 200 };

static void append_identity(Buffer *out, const char *name, const Json *given, const char *prefix)
{
    struct timespec now;
    char made[64];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(made, sizeof made, "%s%llx%05lx%05ld", prefix, (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec,
             (long)getpid());
    append_string(out, name);
    bool const is_named = given->kind == JSON_STRING && given->text.size > 0;
    append_quoted(out, is_named ? given->text : text_of(made));
}

Run begin_run(Arena *arena, int descriptor, const Json *asked)
{
    Run run = {.arena = arena, .descriptor = descriptor, .max_bytes = (size_t)MAX_EVENT_BYTES};
    Buffer identity = {.arena = arena};
    if (asked == NULL) {
        run.identity = text_of("\"session_id\":null,\"run_id\":null");
        return run;
    }
    append_identity(&identity, "\"session_id\":", get(asked, "session_id"), "ses_");
    append_identity(&identity, ",\"run_id\":", get(asked, "run_id"), "run_");
    run.identity = text_in(&identity);
    const Json *most = get(get(asked, "limits"), "max_event_bytes");
    double const bytes = most->kind == JSON_NUMBER ? number_of(most) : MAX_EVENT_BYTES;
    if (bytes >= MIN_EVENT_BYTES) {
        run.max_bytes = (size_t)(bytes < MOST_EVENT_BYTES ? bytes : MOST_EVENT_BYTES);
    }
    return run;
}

static Buffer begin_event(Run *run, const char *type)
{
    struct timespec now;
    struct tm broken;
    char timestamp[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &broken);
    size_t const size = strftime(timestamp, sizeof timestamp, "%Y-%m-%dT%H:%M:%S", &broken);
    snprintf(timestamp + size, sizeof timestamp - size, ".%03ldZ", now.tv_nsec / 1000000);
    Buffer line = {.arena = run->arena};
    append_string(&line, "{\"event_type\":\"");
    append_string(&line, type);
    append_string(&line, "\",");
    append(&line, run->identity);
    append_string(&line, ",\"seq\":");
    append_number(&line, ++run->seq);
    append_string(&line, ",\"timestamp\":\"");
    append_string(&line, timestamp);
    append_string(&line, "\"");
    return line;
}

static void end_event(Run *run, Buffer *line)
{
    append_string(line, "}\n");
    write_all(run->descriptor, text_in(line));
}

void emit_started(Run *run)
{
    Buffer line = begin_event(run, "run_started");
    append_string(&line, ",\"schema_version\":\"3.0\",\"executor\":" EXECUTOR_JSON);
    end_event(run, &line);
}

void emit_result(Run *run, Text answer)
{
    static const char rest[] = ",\"result_data\":null,\"stop_reason\":\"end_turn\"";
    Buffer line = begin_event(run, "result"), cut = {.arena = run->arena};
    append_string(&cut, ",\"truncated\":true,\"original_bytes\":");
    append_number(&cut, answer.size);
    append_string(&line, ",\"result_text\":");
    size_t const used = line.size + sizeof "\"\"" + sizeof rest + sizeof "}\n" - 3;
    size_t const room = run->max_bytes > used ? run->max_bytes - used : 0;
    bool const is_whole = beginning(answer, room).size == answer.size;
    append_quoted(&line, is_whole ? answer : beginning(answer, room > cut.size ? room - cut.size : 0));
    append_string(&line, rest);
    append(&line, is_whole ? text_of("") : text_in(&cut));
    end_event(run, &line);
}

static void append_failure(Buffer *line, const Fault *fault, Text message, Text details)
{
    bool const is_cancelled = strcmp(fault->type, "cancelled") == 0;
    append_string(line, is_cancelled ? ",\"status\":\"cancelled\"" : ",\"status\":\"failed\"");
    append_string(line, ",\"error\":{\"retryable\":false,\"side_effects\":\"none\",\"type\":\"");
    append_string(line, fault->type);
    append_string(line, "\",\"origin\":\"");
    append_string(line, fault->origin);
    append_string(line, "\",\"message\":");
    append_quoted(line, message);
    append(line, details);
    append_string(line, "}");
}

void emit_failure(Run *run, const Fault *fault)
{
    Buffer line = begin_event(run, "failure");
    size_t const begun = line.size;
    append_failure(&line, fault, fault->message, fault->details);
    if (line.size + strlen("}\n") > run->max_bytes) { // then without details
        line.size = begun;
        append_failure(&line, fault, beginning(fault->message, SHORT_MESSAGE_BYTES), text_of(""));
    }
    end_event(run, &line);
}

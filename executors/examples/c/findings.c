#include "findings.h"

#include <ctype.h>

enum { MOST_BYTES = 1 << 24, MOST_SHOWN_BYTES = 200 };

Findings no_findings(Arena *arena)
{
    return (Findings){.arena = arena, .list = {.arena = arena}, .message = {.arena = arena}};
}

void note(Findings *findings, Text found)
{
    if (findings->list.size > MOST_BYTES) {
        return;
    }
    append_string(&findings->list, findings->count == 0 ? "" : ",");
    append_quoted(&findings->list, found);
    append_string(&findings->message, findings->count == 0 ? "" : "; ");
    append(&findings->message, found);
    findings->count++;
}

static bool is_plain(Text key)
{
    for (size_t i = 0; i < key.size; i++) {
        unsigned char const letter = (unsigned char)key.at[i];
        if (!isalpha(letter) && letter != '_' && (i == 0 || (!isdigit(letter) && letter != '-'))) {
            return false;
        }
    }
    return key.size > 0;
}

static void append_path(Buffer *out, const Path *path)
{
    if (path == NULL) {
        append_string(out, "$");
        return;
    }
    append_path(out, path->outer);
    if (path->key.at != NULL && is_plain(path->key)) {
        append_string(out, ".");
        append(out, path->key);
        return;
    }
    append_string(out, "[");
    if (path->key.at != NULL) {
        append_quoted(out, path->key);
    } else {
        append_number(out, path->index);
    }
    append_string(out, "]");
}

static void report_shown(Findings *findings, const Path *path, const char *message, Text shown)
{
    Buffer out = {.arena = findings->arena};
    if (findings->list.size <= MOST_BYTES) {
        append_path(&out, path);
        append_string(&out, ": ");
        append_string(&out, message);
        append(&out, beginning(shown, MOST_SHOWN_BYTES));
        note(findings, text_in(&out));
    }
}

void report(Findings *findings, const Path *path, const char *message)
{
    report_shown(findings, path, message, text_of(""));
}

void report_value(Findings *findings, const Path *path, const char *message, const Json *shown)
{
    Buffer out = {.arena = findings->arena};
    append_json(&out, shown);
    report_shown(findings, path, message, text_in(&out));
}

void report_key(Findings *findings, const Path *path, const char *message, Text key)
{
    Buffer out = {.arena = findings->arena};
    append_quoted(&out, key);
    report_shown(findings, path, message, text_in(&out));
}

#include "inputs.h"

#include <ctype.h>
#include <string.h>

// Returns the bytes of the line end that a text begins with, 0 for none.
static size_t line_end(Text rest)
{
    uint32_t code;
    size_t const size = utf8_read(rest, &code);
    if (size == 0) {
        return 0;
    }
    if (code == '\r' && rest.size > 1 && rest.at[1] == '\n') {
        return 2;
    }
    bool const ends = (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85
        || code == 0x2028 || code == 0x2029;
    return ends ? size : 0;
}

static Text first_line(Text rest)
{
    size_t size = 0;
    while (size < rest.size && line_end(after(rest, size)) == 0) {
        size++;
    }
    return (Text){rest.at, size};
}

// Appends JSON in which no line end is left: those above ASCII are not escaped yet.
static void append_on_one_line(Buffer *out, Text json)
{
    for (;;) {
        uint32_t code;
        Text const line = first_line(json);
        append(out, line);
        json = after(json, line.size);
        size_t const size = utf8_read(json, &code);
        if (size == 0) {
            return;
        }
        append_string(out, code == 0x85 ? "\\u0085" : code == 0x2028 ? "\\u2028" : "\\u2029");
        json = after(json, size);
    }
}

static void append_name(Buffer *out, Text key)
{
    bool is_plain = key.size > 0 && !isdigit((unsigned char)key.at[0]) && key.at[0] != '-' && key.at[0] != '.';
    for (size_t i = 0; i < key.size && is_plain; i++) {
        is_plain = key.at[i] != '\0' && (isalnum((unsigned char)key.at[i]) || strchr("_.-", key.at[i]) != NULL);
    }
    if (is_plain) {
        append(out, key);
        return;
    }
    Buffer quoted = {.arena = out->arena};
    append_quoted(&quoted, key);
    append_on_one_line(out, text_in(&quoted));
}

static void append_value(Buffer *out, const Json *value)
{
    if (value->kind != JSON_STRING || value->text.size == 0) {
        Buffer json = {.arena = out->arena};
        append_json(&json, value);
        append_on_one_line(out, text_in(&json));
        return;
    }
    Text rest = value->text, line = first_line(rest);
    if (line.size == rest.size) {
        append(out, rest);
        return;
    }
    append_string(out, "|");
    for (bool is_last = false; !is_last; line = first_line(rest)) {
        append_string(out, "\n  ");
        append(out, line);
        is_last = line.size == rest.size;
        rest = after(rest, line.size);
        rest = after(rest, line_end(rest));
    }
}

Text agent_text(Arena *arena, const Json *asked)
{
    const Json *parameters = get(asked, "parameters");
    if (get(get(asked, "agent_blueprint"), "parameters_schema")->kind != JSON_OBJECT) {
        return get(parameters, "prompt")->text;
    }
    Buffer body = {.arena = arena}, block = {.arena = arena};
    for (const Json *field = first_field(parameters); field != NULL; field = field->next) {
        append_name(&body, field->key);
        append_string(&body, ": ");
        append_value(&body, field);
        append_string(&body, "\n");
    }
    append_string(&block, "<inputs>\n");
    append_without_tags(&block, text_in(&body));
    append_string(&block, "</inputs>");
    return text_in(&block);
}

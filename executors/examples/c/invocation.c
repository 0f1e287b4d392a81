#include "invocation.h"

#include "rules.h"
#include "schema.h"

#include <ctype.h>
#include <string.h>

static bool is_short_number(Text digits)
{
    for (size_t i = 0; i < digits.size; i++) {
        if (!isdigit((unsigned char)digits.at[i])) {
            return false;
        }
    }
    return digits.size > 0 && digits.size < 7 && (digits.size == 1 || digits.at[0] != '0');
}

Text major_of(const Json *version)
{
    Text const whole = version->kind == JSON_STRING ? version->text : text_of("");
    const char *dot = memchr(whole.at, '.', whole.size);
    if (dot == NULL) {
        return text_of("");
    }
    Text const major = {whole.at, (size_t)(dot - whole.at)}, minor = {dot + 1, whole.size - major.size - 1};
    return is_short_number(major) && is_short_number(minor) ? major : text_of("");
}

static bool begins_with(Text whole, const char *start)
{
    size_t const size = strlen(start);
    return whole.size >= size && memcmp(whole.at, start, size) == 0;
}

static void check_server(Findings *problems, const Json *server, const Path *here)
{
    const Json *type = get(server, "type"), *url = get(server, "url");
    bool const is_program = type->kind == JSON_NULL || is_string(type, "stdio");
    check(problems, server, read_rule(problems->arena, is_program ? PROGRAM : REMOTE), here);
    if (url->kind == JSON_STRING && !begins_with(url->text, "http://") && !begins_with(url->text, "https://")) {
        Path const place = {here, text_of("url"), 0};
        report(problems, &place, "expected http:// or https://");
    }
}

void check_invocation(Findings *problems, const Json *asked)
{
    const Json *blueprint = get(asked, "agent_blueprint"), *directory = get(asked, "project_dir");
    Path const blueprint_place = {NULL, text_of("agent_blueprint"), 0};
    Path const servers_place = {&blueprint_place, text_of("mcp_servers"), 0};
    check(problems, asked, read_rule(problems->arena, INVOCATION), NULL);
    for (const Json *server = first_field(get(blueprint, "mcp_servers")); server != NULL; server = server->next) {
        Path const place = {&servers_place, server->key, 0};
        check_server(problems, server, &place);
    }
    if (get(blueprint, "output_schema")->kind == JSON_OBJECT && get(blueprint, "output_format")->kind == JSON_OBJECT) {
        report(problems, &blueprint_place, "output_schema and output_format contradict each other");
    }
    if (directory->kind == JSON_STRING && !begins_with(directory->text, "/")) {
        Path const place = {NULL, text_of("project_dir"), 0};
        report(problems, &place, "expected an absolute path");
    }
    if (is_string(get(asked, "mode"), "resume") && get(asked, "executor_session_id")->kind == JSON_NULL) {
        report(problems, NULL, "there is no \"executor_session_id\"");
    }
}

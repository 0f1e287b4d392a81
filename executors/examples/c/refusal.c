#define _POSIX_C_SOURCE 200809L
#include "refusal.h"

#include "invocation.h"
#include "rules.h"
#include "schema.h"

#include <string.h>
#include <sys/stat.h>

static Fault refused(const char *type, Text message, const Buffer *details)
{
    return (Fault){.type = type, .origin = "caller", .exit_code = 64, .message = message, .details = text_in(details)};
}

static Fault refused_for(const char *type, const char *name, const Findings *found)
{
    Buffer details = {.arena = found->arena};
    append_string(&details, ",\"details\":{\"");
    append_string(&details, name);
    append_string(&details, "\":[");
    append(&details, text_in(&found->list));
    append_string(&details, "]}");
    return refused(type, text_in(&found->message), &details);
}

static Fault refused_version(Arena *arena, const Json *version)
{
    Buffer details = {.arena = arena};
    append_string(&details, ",\"details\":{\"requested\":");
    append_json(&details, version);
    append_string(&details, ",\"supported\":[\"3.0\"]}");
    return refused("unsupported_schema_version", text_of("of schema_version only 3.0 is spoken here"), &details);
}

static Fault refused_parameters(const Findings *errors, const Json *schema)
{
    Buffer details = {.arena = errors->arena};
    append_string(&details, ",\"validation_errors\":[");
    append(&details, text_in(&errors->list));
    append_string(&details, "],\"details\":{\"validation_errors\":[");
    append(&details, text_in(&errors->list));
    append_string(&details, "],\"schema\":");
    append_json(&details, schema);
    append_string(&details, "}");
    return refused("parameters_validation_failed", text_in(&errors->message), &details);
}

static Fault judge_parameters(Arena *arena, const Json *asked)
{
    const Json *given = get(get(asked, "agent_blueprint"), "parameters_schema"), *form = read_rule(arena, SCHEMA);
    const Json *schema = given->kind == JSON_OBJECT ? given : read_rule(arena, PROMPT);
    Path const blueprint = {NULL, text_of("agent_blueprint"), 0}, here = {&blueprint, text_of("parameters_schema"), 0};
    Findings flaws = no_findings(arena), keywords = no_findings(arena), errors = no_findings(arena);
    check_schema(&flaws, schema, form, &here);
    if (flaws.count > 0) {
        return refused_for("invalid_invocation", "problems", &flaws);
    }
    find_not_judged(&keywords, schema, form);
    if (keywords.count > 0) {
        return refused_for("unsupported_capability", "missing", &keywords);
    }
    check(&errors, get(asked, "parameters"), schema, NULL);
    return errors.count > 0 ? refused_parameters(&errors, schema) : (Fault){0};
}

static bool is_directory(Arena *arena, Text path)
{
    struct stat found;
    Buffer string = {.arena = arena};
    append(&string, path);
    append(&string, (Text){"", 1});
    bool const is_whole = strlen(string.at) == path.size; // no NUL within
    return is_whole && stat(string.at, &found) == 0 && S_ISDIR(found.st_mode);
}

static void find_missing(Findings *missing, const Json *asked)
{
    for (const Json *feature = first_item(get(asked, "requires")); feature != NULL; feature = feature->next) {
        note(missing, feature->text);
    }
    if (is_string(get(asked, "mode"), "resume")) {
        note(missing, text_of("resume"));
    }
    if (is_string(get(get(asked, "agent_blueprint"), "type"), "procedural")) {
        note(missing, text_of("agent_type:procedural"));
    }
}

Fault refusal(Arena *arena, const Json *asked)
{
    const Json *version = get(asked, "schema_version"), *directory = get(asked, "project_dir");
    Findings problems = no_findings(arena), missing = no_findings(arena);
    problems.names_missing = true;
    Text const major = major_of(version);
    if (major.size == 0) {
        Path const place = {NULL, text_of("schema_version"), 0};
        report(&problems, &place, "expected a version such as 3.0");
    } else if (compare_texts(major, text_of("3")) != 0) {
        return refused_version(arena, version);
    } else {
        check_invocation(&problems, asked);
    }
    if (problems.count > 0) {
        return refused_for("invalid_invocation", "problems", &problems);
    }
    find_missing(&missing, asked);
    if (missing.count > 0) {
        return refused_for("unsupported_capability", "missing", &missing);
    }
    Fault const fault = judge_parameters(arena, asked);
    if (fault.type == NULL && directory->kind == JSON_STRING && !is_directory(arena, directory->text)) {
        return (Fault){"workspace_error", "environment", 1, text_of("project_dir is no directory"), text_of("")};
    }
    return fault;
}

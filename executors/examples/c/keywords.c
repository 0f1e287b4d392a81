// Schemas that come from elsewhere: whether one is a schema, and whether all of it is judged here.
#include "schema.h"

#include <stdlib.h>

static const char *const INNER[] = {"items", "additionalProperties"};
static const char *const TYPES[] = {"null", "boolean", "object", "array", "number", "string", "integer", NULL};

static bool is_one_of(Text word, const char *const *words)
{
    while (*words != NULL && compare_texts(word, text_of(*words)) != 0) {
        words++;
    }
    return *words != NULL;
}

static void check_type(Findings *flaws, const Json *type, const Path *here)
{
    if (type->kind == JSON_STRING && !is_one_of(type->text, TYPES)) {
        report_value(flaws, here, "is no type: ", type);
    }
    if (type->kind == JSON_ARRAY && first_item(type) == NULL) {
        report(flaws, here, "names no type");
    }
    for (const Json *name = first_item(type); name != NULL; name = name->next) {
        if (name->kind != JSON_STRING || !is_one_of(name->text, TYPES)) {
            report_value(flaws, here, "is no type: ", name);
        }
    }
}

static int compare_names(const void *one, const void *other)
{
    return compare_texts(*(const Text *)one, *(const Text *)other);
}

static void check_names(Findings *flaws, const Json *names, const Path *here)
{
    size_t count = 0;
    for (const Json *name = first_item(names); name != NULL; name = name->next) {
        count++;
    }
    Text *sorted = arena_take(flaws->arena, (count + 1) * sizeof(Text));
    count = 0;
    for (const Json *name = first_item(names); name != NULL; name = name->next) {
        if (name->kind == JSON_STRING) {
            sorted[count++] = name->text;
        }
    }
    qsort(sorted, count, sizeof(Text), compare_names);
    for (size_t i = 1; i < count; i++) {
        if (compare_texts(sorted[i - 1], sorted[i]) == 0) {
            report_key(flaws, here, "has twice ", sorted[i]);
        }
    }
}

void check_schema(Findings *flaws, const Json *schema, const Json *form, const Path *here)
{
    const Json *known = get(schema, "properties"), *reference = get(schema, "$ref");
    Path const type = {here, text_of("type"), 0}, properties = {here, text_of("properties"), 0};
    Path const required = {here, text_of("required"), 0};
    check(flaws, schema, form, here);
    check_type(flaws, get(schema, "type"), &type);
    check_names(flaws, get(schema, "type"), &type);
    check_names(flaws, get(schema, "required"), &required);
    if (reference->kind == JSON_STRING && (reference->text.size == 0 || reference->text.at[0] != '#')) {
        report_value(flaws, here, "refers to something outside: ", reference);
    }
    for (const Json *part = first_field(known); part != NULL; part = part->next) {
        Path const place = {&properties, part->key, 0};
        if (part->kind == JSON_OBJECT) {
            check_schema(flaws, part, form, &place);
        }
    }
    for (size_t i = 0; i < sizeof INNER / sizeof *INNER; i++) {
        const Json *part = get(schema, INNER[i]);
        Path const place = {here, text_of(INNER[i]), 0};
        if (part->kind == JSON_OBJECT) {
            check_schema(flaws, part, form, &place);
        }
    }
}

static void note_keyword(Findings *keywords, Text keyword)
{
    Buffer named = {.arena = keywords->arena};
    append_string(&named, "parameters_schema:");
    append(&named, keyword);
    note(keywords, text_in(&named));
}

void find_not_judged(Findings *keywords, const Json *schema, const Json *form)
{
    const Json *judged = get(form, "properties");
    for (const Json *field = first_field(schema); field != NULL; field = field->next) {
        if (find_field(judged, field->key) == NULL) {
            note_keyword(keywords, field->key);
        }
    }
    for (const Json *part = first_field(get(schema, "properties")); part != NULL; part = part->next) {
        if (part->kind == JSON_OBJECT) {
            find_not_judged(keywords, part, form);
        } else {
            note_keyword(keywords, text_of("boolean schema"));
        }
    }
    for (size_t i = 0; i < sizeof INNER / sizeof *INNER; i++) {
        const Json *part = get(schema, INNER[i]);
        if (part->kind == JSON_OBJECT) {
            find_not_judged(keywords, part, form);
        }
    }
    const Json *items = get(schema, "items");
    if (items->kind != JSON_OBJECT && items->kind != JSON_NULL) {
        note_keyword(keywords, text_of("items"));
    }
}

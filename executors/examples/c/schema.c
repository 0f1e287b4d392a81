#include "schema.h"

static const char *const KINDS[] = {"null", "boolean", "number", "string", "array", "object"};

static bool is_integer(const Json *number)
{
    double const value = number_of(number), most = 9007199254740992.0; // from here on no double has a fraction
    return value <= -most || value >= most || value == (double)(int64_t)value;
}

static bool is_kind(const Json *value, const Json *name)
{
    return is_string(name, KINDS[value->kind])
        || (value->kind == JSON_NUMBER && is_string(name, "integer") && is_integer(value));
}

static void check_kind(Findings *findings, const Json *value, const Json *type, const Path *here)
{
    bool fits = type->kind == JSON_NULL || is_kind(value, type);
    for (const Json *name = first_item(type); name != NULL && !fits; name = name->next) {
        fits = is_kind(value, name);
    }
    if (!fits) {
        report_value(findings, here, "is of another type than ", type);
    }
}

static void check_choice(Findings *findings, const Json *value, const Json *choices, const Path *here)
{
    bool fits = choices->kind != JSON_ARRAY;
    for (const Json *choice = first_item(choices); choice != NULL && !fits; choice = choice->next) {
        fits = same(choice, value);
    }
    if (!fits) {
        report_value(findings, here, "is none of ", choices);
    }
}

static void check_bounds(Findings *findings, const Json *value, const Json *schema, const Path *here)
{
    const Json *least = get(schema, "minLength"), *minimum = get(schema, "minimum");
    const Json *above = get(schema, "exclusiveMinimum");
    if (value->kind == JSON_STRING && least->kind == JSON_NUMBER) {
        size_t characters = 0;
        for (size_t i = 0; i < value->text.size; i++) {
            characters += ((unsigned char)value->text.at[i] & 0xC0) != 0x80;
        }
        if ((double)characters < number_of(least)) {
            report(findings, here, "is too short");
        }
    }
    if (value->kind == JSON_NUMBER) {
        double const number = number_of(value);
        if ((minimum->kind == JSON_NUMBER && number < number_of(minimum))
            || (above->kind == JSON_NUMBER && number <= number_of(above))) {
            report(findings, here, "is too small");
        }
    }
}

static void check_required(Findings *findings, const Json *object, const Json *required, const Path *here)
{
    for (const Json *key = first_item(required); key != NULL; key = key->next) {
        Path const place = {here, key->text, 0};
        if (find_field(object, key->text) == NULL) {
            report_key(findings, findings->names_missing ? &place : here, "there is no ", key->text);
        }
    }
}

static void check_fields(Findings *findings, const Json *object, const Json *schema, const Path *here)
{
    const Json *known = get(schema, "properties"), *others = get(schema, "additionalProperties");
    for (const Json *field = first_field(object); field != NULL; field = field->next) {
        Path const place = {here, field->key, 0};
        const Json *part = find_field(known, field->key);
        part = part != NULL ? part : others;
        if (part->kind == JSON_OBJECT) {
            check(findings, field, part, &place);
        } else if (part->kind == JSON_BOOLEAN && !part->truth) {
            report_key(findings, here, "there may be no ", field->key);
        }
    }
}

void check(Findings *findings, const Json *value, const Json *schema, const Path *here)
{
    const Json *items = get(schema, "items");
    check_kind(findings, value, get(schema, "type"), here);
    check_choice(findings, value, get(schema, "enum"), here);
    check_bounds(findings, value, schema, here);
    if (value->kind == JSON_OBJECT) {
        check_required(findings, value, get(schema, "required"), here);
        check_fields(findings, value, schema, here);
    }
    if (items->kind == JSON_OBJECT) {
        size_t index = 0;
        for (const Json *item = first_item(value); item != NULL; item = item->next) {
            Path const place = {here, {NULL, 0}, index++};
            check(findings, item, items, &place);
        }
    }
}

#include "json.h"

#include <stdlib.h>
#include <string.h>

void drop_nulls(Json *object)
{
    size_t kept = 0;
    for (size_t i = 0; i < object->count; i++) {
        if (object->by_key[i]->kind != JSON_NULL) {
            object->by_key[kept++] = object->by_key[i];
        }
    }
    object->count = kept;
    for (Json **place = &object->first; *place != NULL;) {
        if ((*place)->kind == JSON_NULL) {
            *place = (*place)->next;
        } else {
            place = &(*place)->next;
        }
    }
}

int compare_texts(Text one, Text other)
{
    int const order = memcmp(one.at, other.at, one.size < other.size ? one.size : other.size);
    return order != 0 ? order : (one.size > other.size) - (one.size < other.size);
}

const Json *find_field(const Json *object, Text key)
{
    size_t low = 0, high = object->kind == JSON_OBJECT ? object->count : 0;
    while (low < high) {
        size_t const middle = low + (high - low) / 2;
        int const order = compare_texts(key, object->by_key[middle]->key);
        if (order == 0) {
            return object->by_key[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const Json *get(const Json *object, const char *key)
{
    static const Json nothing = {.kind = JSON_NULL};
    const Json *field = find_field(object, text_of(key));
    return field != NULL ? field : &nothing;
}

const Json *first_item(const Json *array)
{
    return array->kind == JSON_ARRAY ? array->first : NULL;
}

const Json *first_field(const Json *object)
{
    return object->kind == JSON_OBJECT ? object->first : NULL;
}

bool is_string(const Json *value, const char *expected)
{
    return value->kind == JSON_STRING && compare_texts(value->text, text_of(expected)) == 0;
}

double number_of(const Json *number)
{
    return strtod(number->text.at, NULL); // ends by itself: behind a number stands no other digit
}

static bool same_members(const Json *one, const Json *other)
{
    if (one->count != other->count) {
        return false;
    }
    if (one->kind == JSON_ARRAY) {
        const Json *left = one->first, *right = other->first;
        while (left != NULL && same(left, right)) {
            left = left->next;
            right = right->next;
        }
        return left == NULL;
    }
    for (size_t i = 0; i < one->count; i++) {
        const Json *left = one->by_key[i], *right = other->by_key[i];
        if (compare_texts(left->key, right->key) != 0 || !same(left, right)) {
            return false;
        }
    }
    return true;
}

bool same(const Json *one, const Json *other)
{
    if (one->kind != other->kind) {
        return false;
    }
    switch (one->kind) {
    case JSON_NULL:
        return true;
    case JSON_BOOLEAN:
        return one->truth == other->truth;
    case JSON_NUMBER:
        return number_of(one) == number_of(other);
    case JSON_STRING:
        return compare_texts(one->text, other->text) == 0;
    default:
        return same_members(one, other);
    }
}

void append_json(Buffer *out, const Json *value)
{
    switch (value->kind) {
    case JSON_NULL:
        append_string(out, "null");
        break;
    case JSON_BOOLEAN:
        append_string(out, value->truth ? "true" : "false");
        break;
    case JSON_NUMBER:
        append(out, value->text);
        break;
    case JSON_STRING:
        append_quoted(out, value->text);
        break;
    default:
        append_string(out, value->kind == JSON_OBJECT ? "{" : "[");
        for (const Json *member = value->first; member != NULL; member = member->next) {
            append_string(out, member == value->first ? "" : ",");
            if (value->kind == JSON_OBJECT) {
                append_quoted(out, member->key);
                append_string(out, ":");
            }
            append_json(out, member);
        }
        append_string(out, value->kind == JSON_OBJECT ? "}" : "]");
    }
}

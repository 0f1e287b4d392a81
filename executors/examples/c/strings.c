// Strings of JSON, in both directions.
#include "json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// One unit of UTF-16 as four hexadecimal digits.
static bool read_unit(const char *digits, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char const digit = (unsigned char)digits[i];
        if (!isxdigit(digit)) {
            return false;
        }
        *unit = *unit << 4 | (uint32_t)(isdigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    return true;
}

// Reads a character from one unit or two; U+FFFD for half a pair. Returns its bytes, 0 where there is none.
static size_t read_units(char **at, char *out)
{
    uint32_t unit, low;
    if (!read_unit(*at, &unit)) {
        return 0;
    }
    *at += 4;
    bool const is_high = unit >= 0xD800 && unit < 0xDC00;
    if (is_high && strncmp(*at, "\\u", 2) == 0 && read_unit(*at + 2, &low) && low >= 0xDC00 && low < 0xE000) {
        *at += 6;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    bool const is_half = unit >= 0xD800 && unit < 0xE000;
    return utf8_write(out, is_half ? 0xFFFD : unit);
}

static size_t read_escape(char **at, char *out)
{
    static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char const mark = *(*at)++;
    if (mark == 'u') {
        return read_units(at, out);
    }
    const char *known = mark == '\0' ? NULL : strchr(marks, mark);
    if (known == NULL) {
        return 0;
    }
    *out = meant[known - marks];
    return 1;
}

bool read_string(char **at, Text *string)
{
    char *out = *at; // never overtakes what is read: an escape is longer than its character
    string->at = out;
    while (**at != '"') {
        if ((unsigned char)**at < 0x20) {
            return false;
        }
        if (**at != '\\') {
            *out++ = *(*at)++;
            continue;
        }
        ++*at;
        size_t const size = read_escape(at, out);
        if (size == 0) {
            return false;
        }
        out += size;
    }
    ++*at;
    string->size = (size_t)(out - string->at);
    return true;
}

// How a byte of a string stands in JSON.
static Text escaped(const char *byte, char room[7])
{
    static const char plain[] = "\"\\\b\f\n\r\t", marks[] = "\"\\bfnrt";
    const char *known = *byte == '\0' ? NULL : strchr(plain, *byte);
    if (known != NULL) {
        room[0] = '\\';
        room[1] = marks[known - plain];
        return (Text){room, 2};
    }
    if ((unsigned char)*byte >= 0x20) {
        return (Text){byte, 1};
    }
    return (Text){room, (size_t)snprintf(room, 7, "\\u%04x", (unsigned)*byte)};
}

void append_quoted(Buffer *out, Text string)
{
    char room[7];
    append_string(out, "\"");
    for (size_t i = 0; i < string.size; i++) {
        append(out, escaped(string.at + i, room));
    }
    append_string(out, "\"");
}

Text beginning(Text string, size_t room)
{
    char scratch[7];
    size_t end = 0, used = 0;
    for (size_t i = 0; i <= string.size && used <= room; i++) {
        bool const is_between = i == string.size || ((unsigned char)string.at[i] & 0xC0) != 0x80;
        end = is_between ? i : end;
        used += i < string.size ? escaped(string.at + i, scratch).size : 0;
    }
    return (Text){string.at, end};
}

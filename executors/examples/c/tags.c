#define _POSIX_C_SOURCE 200809L
#include "inputs.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static Text skip_space(Text rest)
{
    uint32_t code;
    for (size_t size; (size = utf8_read(rest, &code)) > 0; rest = after(rest, size)) {
        bool const is_space = (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= ' ') || code == 0x85
            || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028
            || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
        if (!is_space) {
            break;
        }
    }
    return rest;
}

// Beyond ASCII letters are not told from signs here: `<inputs` before one is taken for a tag, which is safe.
static bool begins_tag(Text rest)
{
    static const char name[] = "inputs";
    size_t const size = sizeof name - 1;
    rest = skip_space(rest);
    if (rest.size > 0 && *rest.at == '/') {
        rest = skip_space(after(rest, 1));
    }
    if (rest.size < size || strncasecmp(rest.at, name, size) != 0) {
        return false;
    }
    return rest.size == size || (!isalnum((unsigned char)rest.at[size]) && rest.at[size] != '_');
}

void append_without_tags(Buffer *out, Text body)
{
    const char *mark;
    while (body.size > 0 && (mark = memchr(body.at, '<', body.size)) != NULL) {
        size_t const before = (size_t)(mark - body.at);
        append(out, (Text){body.at, before});
        body = after(body, before + 1);
        append_string(out, begins_tag(body) ? "&lt;" : "<");
    }
    append(out, body);
}

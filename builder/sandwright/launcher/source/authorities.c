/* The host's CA certificates, for the root of an image: a copy in the run directory, so that the mounted file
 * stays the same if the host replaces its own. Only certificates are copied. */
#define _GNU_SOURCE
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "launch.h"

enum { MOST_BUNDLE = 1 << 24 }; /* bytes */

/* The files in which Debian, Fedora, openSUSE, Alpine and others keep all certificates. */
static const char *const bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----";

/* Reads the line at `from`, which ends before `last`. Returns the start of the next line; `is`: whether the
 * line is `words`, after which blanks may follow (RFC 7468). */
static const char *next_line(const char *from, const char *last, const char *words, bool *is)
{
    const char *stop = memchr(from, '\n', (size_t)(last - from)), *to = stop != NULL ? stop : last;
    size_t length = strlen(words);
    while (to > from && (to[-1] == '\r' || to[-1] == ' ' || to[-1] == '\t'))
        to--;
    *is = (size_t)(to - from) == length && memcmp(from, words, length) == 0;
    return stop != NULL ? stop + 1 : last;
}

/* For the data of a certificate that starts at `from`: returns the position after its last line, or NULL if
 * it contains anything else. */
static const char *certificate_end(const char *from, const char *last)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n";
    while (from < last) {
        bool ends;
        const char *next = next_line(from, last, end, &ends);
        if (ends)
            return next;
        for (; from < next; from++)
            if (*from == '\0' || strchr(digits, *from) == NULL)
                return NULL;
    }
    return NULL;
}

char *only_certificates(const char *content, size_t length)
{
    const char *last = content + length;
    char *kept = xcalloc(length + 2), *to = kept;
    while (content < last) {
        bool begins;
        const char *data = next_line(content, last, begin, &begins), *behind = NULL;
        if (begins && (behind = certificate_end(data, last)) != NULL) {
            to = mempcpy(to, content, (size_t)(behind - content));
            if (to[-1] != '\n')
                *to++ = '\n';
        }
        content = behind != NULL ? behind : data;
    }
    return to == kept ? NULL : kept;
}

/* The reason why a file is not trusted, or NULL: neither programs inside nor other users of the host may
 * choose the certificates. */
static const char *doubt(const struct run *run, int file)
{
    struct stat status;
    const char *path = read_link(AT_FDCWD, xasprintf("/proc/self/fd/%d", file));
    if (path == NULL || fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        return "it is not a regular file";
    if ((status.st_uid != 0 && status.st_uid != geteuid()) || (status.st_mode & 022) != 0)
        return "users other than root and you can write it";
    return is_writable_inside(run, path) ? "the sandbox can write it" : NULL;
}

/* The certificates in a file. NULL if it has none, or is not trusted; the reason is reported for a `given`
 * file. */
static char *certificates_of(const struct run *run, const char *path, bool given)
{
    size_t length = 0;
    char *content = NULL;
    _cleanup_close_ int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const char *why = file < 0 ? strerror(errno) : doubt(run, file);
    if (why == NULL && (content = read_file(AT_FDCWD, xasprintf("/proc/self/fd/%d", file), MOST_BUNDLE, &length)) == NULL)
        why = strerror(errno);
    if (content != NULL && (content = only_certificates(content, length)) == NULL)
        why = "it contains no certificate";
    if (content == NULL && given)
        warn("SSL_CERT_FILE is not passed: %s", why);
    return content;
}

/* The path in an image to which links lead, because each runtime resolves links differently. NULL if there is
 * no file. */
static char *file_in(const char *image, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    struct stat status;
    _cleanup_close_ int above = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int file = (int)syscall(SYS_openat2, above, path, &how, sizeof how);
    char *real = file < 0 ? NULL : read_link(AT_FDCWD, xasprintf("/proc/self/fd/%d", file));
    bool found = real != NULL && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    return found && strncmp(real, image, strlen(image)) == 0 ? real + strlen(image) : NULL;
}

struct strv authorities_in(const struct strv *asked, const char *image)
{
    struct strv places = {0};
    for (size_t index = 0; index < asked->count; index++) {
        char *place = image != NULL ? file_in(image, asked->at[index]) : asked->at[index];
        if (place != NULL && !strv_contains(&places, place))
            strv_push(&places, place);
    }
    return places;
}

const char *authorities_copy(const struct run *run)
{
    const char *given = getenv("SSL_CERT_FILE"), *path = xasprintf("%s/authorities.pem", run->state);
    char *content = NULL;
    if (run->document.authorities != NULL)
        return xasprintf("%s/authorities.pem", run->document.authorities);
    if (run->plan.authorities.bundles.count == 0)
        return NULL;
    if (given != NULL && given[0] == '/')
        content = certificates_of(run, given, true);
    for (size_t index = 0; content == NULL && index < sizeof bundles / sizeof *bundles; index++)
        content = certificates_of(run, bundles[index], false);
    if (content == NULL)
        return NULL;
    if (write_file(AT_FDCWD, path, content, strlen(content), 0644) != 0 || chmod(path, 0644) != 0)
        die_errno("cannot write %s", path);
    return path;
}

struct strv authorities_stores(const struct run *run, const char *image, const char **path)
{
    static const char name[] = "authorities.jks";
    *path = has_artifact(run, name) ? xasprintf("%s/%s", run->directory, name) : NULL;
    if (run->document.authorities != NULL)
        *path = xasprintf("%s/%s", run->document.authorities, name);
    return *path != NULL ? authorities_in(&run->plan.authorities.stores, image) : (struct strv){0};
}

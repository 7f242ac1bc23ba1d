/* The proxy of Docker and Podman runs in a container on two networks: an internal one, which the sandbox is
 * on, and one that leads out, $SANDWRIGHT_NETWORK or the engine's default network. On the internal one, the
 * host has no address either. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "engine.h"

enum { STARTING = 20000, REMOVING = 10000 }; /* milliseconds */

static char *inside(const struct run *run)
{
    return xasprintf("%s-inside", run->name);
}

static char *proxy(const struct run *run)
{
    return xasprintf("%s-proxy", run->name);
}

/* The addresses that are values of `name` in JSON, one per line after `before`. `whole`: keeps the prefix
 * length after an address. */
static char *addresses(const char *json, const char *name, const char *before, bool whole)
{
    char *found = xasprintf("%s", "");
    for (; (json = strcasestr(json, name)) != NULL; json += strlen(name)) {
        const char *from = json + strlen(name);
        if (*from++ != '"')
            continue;
        from += strspn(from, ": \t");
        size_t length = *from == '"' ? strspn(from + 1, whole ? "0123456789abcdefABCDEF.:/" : "0123456789abcdefABCDEF.:") : 0;
        if (length > 0)
            found = xasprintf("%s%s %.*s\n", found, before, (int)length, from + 1);
    }
    return found;
}

/* A line for each address of this machine that other machines can reach, and for its NAT64 form (RFC 6052):
 * no host name may lead a sandbox back to this machine. */
static char *own_addresses(void)
{
    struct ifaddrs *all, *each;
    char *found = xasprintf("%s", "");
    if (getifaddrs(&all) != 0)
        die_errno("cannot determine the addresses of this machine");
    for (each = all; each != NULL; each = each->ifa_next) {
        char word[INET6_ADDRSTRLEN];
        int family = each->ifa_addr == NULL ? AF_UNSPEC : each->ifa_addr->sa_family;
        const void *address = family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)(void *)each->ifa_addr)->sin6_addr
                                                 : (void *)&((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr;
        if (family != AF_INET && family != AF_INET6)
            continue;
        inet_ntop(family, address, word, sizeof word);
        if (strncmp(word, "127.", 4) == 0 || strcmp(word, "::1") == 0 || strncmp(word, "fe80:", 5) == 0)
            continue; /* the proxy refuses these in any case */
        found = xasprintf("%sacl sw_never dst %s\n", found, word);
        if (family == AF_INET)
            found = xasprintf("%sacl sw_never dst 64:ff9b::%s\n", found, word);
    }
    freeifaddrs(all);
    return found;
}

/* The proxy serves the internal network only, without the host's address there. Otherwise it would serve any
 * client that reaches its other address. */
static const char *write_clients(struct run *run)
{
    const char *json = ask(run, "network", "inspect", inside(run), NULL);
    const char *served = json != NULL ? addresses(json, "\"subnet", "acl sw_clients src", true) : "";
    if (served[0] == '\0')
        die("the network of the sandbox and its proxy has no addresses");
    return make_file(run, "clients", xasprintf("%s%sacl sw_gateway src 255.255.255.255\n%s", served,
                                          addresses(json, "\"gateway", "acl sw_gateway src", false), own_addresses()), 0644);
}

static void wait_for_it(struct run *run)
{
    for (long until = milliseconds() + STARTING;;) {
        const char *said = ask_all(run, "logs", proxy(run), NULL);
        if (said != NULL && strstr(said, "Accepting HTTP") != NULL)
            return;
        if (milliseconds() > until)
            die("the proxy does not answer: %s", said != NULL ? said : "");
        poll(NULL, 0, 100);
    }
}

/* The proxy's address in the internal network. If the engine's default network does not exist (Docker's
 * `"bridge": "none"`), Docker still starts the container, but connects it to no network, and the proxy would
 * be unreachable. */
static const char *address(struct run *run)
{
    char *said = ask(run, "inspect", "--format",
                     xasprintf("{{(index .NetworkSettings.Networks \"%s\").IPAddress}}"
                          "{{range $name, $each := .NetworkSettings.Networks}}{{if not $each.MacAddress}} {{$name}}{{end}}{{end}}",
                          inside(run)),
                     proxy(run), NULL);
    size_t length = said != NULL ? strspn(said, "0123456789.") : 0;
    if (length == 0)
        die("the proxy has no address");
    if (!is_podman(run) && said[length] == ' ')
        die("cannot connect the proxy to the engine's network %s; set SANDWRIGHT_NETWORK to another", xasprintf("%.*s", (int)strcspn(said + length + 1, " \n"), said + length + 1));
    said[length] = '\0';
    return said;
}

/* The resolver is started in the container's network namespace, which must be on this machine, and which only
 * root can enter if Docker has created it. Otherwise programs have to use the proxy variables. */
static void find_names(struct run *run, const char *proxy_address, struct strv *options)
{
    bool here = is_podman(run) ? !is_remote() : geteuid() == 0 && process_of(run, proxy(run)) > 0;
    struct in_addr found;
    if (here && inet_aton(proxy_address, &found) == 1)
        run->proxy_address = found.s_addr;
    else
        run->plan.names.patterns.count = 0;
    if (dns_wanted(run))
        strv_push(options, xasprintf("--mount=type=bind,readonly,%s,dst=/etc/resolv.conf",
                          mount_source(make_file(run, "resolv.conf", "nameserver 127.0.0.1\n", 0644))));
}

void proxy_start(struct run *run, struct strv *options)
{
    const struct plan *plan = &run->plan;
    char *label = xasprintf("sandwright.session=%s", session_label(run));
    check_annotations(run, plan->engine.proxy_image, plan->engine.proxy_missing);
    if (ask_all(run, "network", "create", "--internal", xasprintf("--label=%s", label),
            is_podman(run) ? inside(run) : xasprintf("--opt=com.docker.network.bridge.inhibit_ipv4=true"),
            is_podman(run) ? NULL : inside(run), NULL) == NULL)
        die("cannot create a network for the sandbox and its proxy: %s", refusal());
    const char *clients = write_clients(run);
    if (ask_all(run, "run", "--detach", "--rm", "--pull=never", "--read-only", "--cap-drop=ALL",
            "--security-opt=no-new-privileges", "--pids-limit=64", "--ulimit=nofile=4096:4096",
            is_podman(run) ? most_processes() : xasprintf("--init=false"), xasprintf("--name=%s", proxy(run)),
            xasprintf("--label=%s", label),
            xasprintf("--network=%s", is_set("SANDWRIGHT_NETWORK") ? getenv("SANDWRIGHT_NETWORK") : plan->engine.proxy_network),
            xasprintf("--mount=type=bind,readonly,%s,dst=/etc/squid", mount_source(xasprintf("%s/proxy", run->directory))),
            xasprintf("--mount=type=bind,readonly,%s,dst=%s", mount_source(clients), plan->engine.proxy_clients),
            plan->engine.proxy_image, NULL) == NULL ||
        ask_all(run, "network", "connect", inside(run), proxy(run), NULL) == NULL)
        die("cannot start the proxy: %s", refusal());
    if (plan->engine.proxy_private && (is_podman(run) ? is_remote() : process_of(run, proxy(run)) <= 0))
        die("network.allow has private names, and the engine runs on another machine, whose addresses are not known here");
    wait_for_it(run);
    const char *reached = address(run);
    find_names(run, reached, options);
    size_t length;
    const char *hosts = make_file(run, "hosts", xasprintf("%s%s\tproxy\n", checked_artifact(run, "hosts", &length), reached), 0644);
    strv_push(options, xasprintf("--mount=type=bind,readonly,%s,dst=/etc/hosts", mount_source(hosts)));
    strv_push(options, xasprintf("--network=%s", inside(run)));
    /* Also disables link-local addresses, because the host's end of the network may have one. */
    if (access("/proc/sys/net/ipv6", F_OK) == 0) {
        strv_push(options, xasprintf("--sysctl=net.ipv6.conf.all.disable_ipv6=1"));
        strv_push(options, xasprintf("--sysctl=net.ipv6.conf.default.disable_ipv6=1"));
    }
}

/* Removes the proxy and the internal network, on which no sandbox is left. */
void proxy_remove(struct run *run)
{
    remove_by_force(run, proxy(run));
    for (long until = milliseconds() + REMOVING; milliseconds() < until && ask(run, "network", "inspect", inside(run), NULL) != NULL;)
        if (ask(run, "network", "rm", inside(run), NULL) == NULL) {
            /* Docker can lose a container but keep its endpoint in the network, which then can't be removed
             * without this. */
            remove_by_force(run, proxy(run));
            ask(run, "network", "disconnect", "--force", inside(run), proxy(run), NULL);
            poll(NULL, 0, 100);
        }
}

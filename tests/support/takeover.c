/* Simulates a compromised User-Mode Linux kernel: runs in its place, with its privileges, attempts what the sandbox must
 * deny, and prints the results on one line. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

static void tell(const char *name, long result)
{
    printf("%s=%s ", name, result >= 0 ? "done" : strerrorname_np(errno));
}

static int made(const char *path)
{
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    return file < 0 ? -1 : write(file, "x", 1) == 1 ? close(file) : -1;
}

static int tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(22), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

int main(void)
{
    unsigned long how[3] = {O_RDONLY};
    struct timeval times[2] = {{1, 0}, {1, 0}};
    char *const words[] = {"sh", "-c", "exit 0", NULL};
    if (chdir(PROJECT) != 0)
        return 1;
    tell("control-read", open(PROJECT "/plain", O_RDONLY));
    tell("control-write", made(PROJECT "/made"));
    tell("control-rename", rename(PROJECT "/made", PROJECT "/moved"));
    tell("control-link", link(PROJECT "/moved", PROJECT "/linked"));
    tell("control-symlink", symlink(PROJECT "/.env", PROJECT "/to-denied") | symlink(PROJECT "/kept", PROJECT "/to-kept"));
    tell("control-unlink", unlink(PROJECT "/linked"));
    tell("control-chmod", chmod(PROJECT "/plain", 0600));
    tell("control-mode", open(PROJECT "/moded", O_CREAT | O_RDWR, 0755));
    tell("set-id-chmod", chmod(PROJECT "/moded", 04755));
    tell("set-id-fchmod", fchmod(open(PROJECT "/moded", O_RDONLY), 04755));
    tell("set-id-open", open(PROJECT "/set-id", O_CREAT | O_RDWR, 04755));
    tell("set-id-node", mknod(PROJECT "/set-id", S_IFREG | 04755, 0));
    tell("denied", open(PROJECT "/.env", O_RDONLY));
    tell("denied-outside", open("/etc/shadow", O_RDONLY));
    tell("denied-list", open(PROJECT "/deep/hidden", O_RDONLY | O_DIRECTORY));
    tell("denied-in", open(PROJECT "/deep/hidden/secret", O_RDONLY));
    tell("denied-dots", open(PROJECT "/deep/../.env", O_RDONLY));
    tell("denied-slashes", open(PROJECT "//.env", O_RDONLY));
    tell("denied-relative", open(".env", O_RDONLY));
    tell("denied-link", open(PROJECT "/to-denied", O_RDONLY));
    tell("denied-fd", open("/proc/self/cwd/.env", O_RDONLY));
    tell("denied-openat2", syscall(437, AT_FDCWD, PROJECT "/.env", how, sizeof how));
    tell("denied-hard", link(PROJECT "/.env", PROJECT "/hard"));
    tell("denied-moved", rename(PROJECT "/.env", PROJECT "/away"));
    tell("denied-parent", rename(PROJECT "/deep", PROJECT "/away"));
    tell("denied-removed", unlink(PROJECT "/.env"));
    tell("denied-under", made(PROJECT "/.env/x"));
    tell("kept-write", made(PROJECT "/kept/x"));
    tell("kept-file", open(PROJECT "/kept/file", O_RDWR));
    tell("kept-through-link", made(PROJECT "/to-kept/x"));
    tell("kept-hard", link(PROJECT "/kept/file", PROJECT "/hard"));
    tell("kept-moved", rename(PROJECT "/kept", PROJECT "/away"));
    tell("kept-exchanged", syscall(SYS_renameat2, AT_FDCWD, PROJECT "/plain", AT_FDCWD, PROJECT "/kept/file", 2));
    tell("kept-mode", chmod(PROJECT "/kept/file", 0777));
    tell("kept-times", utimes(PROJECT "/kept/file", times));
    tell("kept-cut", truncate(PROJECT "/kept/file", 0));
    tell("kept-removed", unlink(PROJECT "/kept/file"));
    tell("own-removed", rmdir(PROJECT "/kept/own"));
    tell("own-moved", rename(PROJECT "/kept/own", PROJECT "/away"));
    tell("absent-made", mkdir(PROJECT "/.vscode/x", 0755));
    tell("absent-removed", rmdir(PROJECT "/.vscode"));
    /* These calls would change nothing if they succeeded, because the files are the host's. */
    tell("control-device", open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("device-mode", chmod("/dev/null", 0666));
    tell("device-owner", chown("/dev/null", geteuid(), getegid()));
    tell("device-removed", rmdir("/dev/null"));
    tell("outside", made("/usr/made"));
    tell("device", mknod(PROJECT "/device", S_IFCHR | 0666, 0x103));
#ifndef NAMESPACES /* with namespaces, a started program stays in the sandbox, so it is allowed */
    tell("run", execv("/bin/sh", words));
    tell("run-own", execv(PROJECT "/plain", words));
#endif
#ifdef GUEST
    tell("control-guest", open(GUEST, O_RDONLY));
    tell("guest-write", open(GUEST, O_RDWR));
    tell("guest-cut", truncate(GUEST, 0));
    tell("guest-removed", unlink(GUEST));
    tell("guest-moved", rename(GUEST, PROJECT "/away"));
    tell("git-link", symlink(PROJECT "/.env", PROJECT "/.git/COMMIT_EDITMSG"));
    tell("git-moved", rename(PROJECT "/to-denied", PROJECT "/.git/COMMIT_EDITMSG"));
    tell("git-hard", link(PROJECT "/to-denied", PROJECT "/.git/COMMIT_EDITMSG"));
    tell("git-exchanged", syscall(SYS_renameat2, AT_FDCWD, PROJECT "/to-denied", AT_FDCWD, PROJECT "/.git/index", 2));
    mkdir(PROJECT "/folder", 0755);
    tell("git-folder", rename(PROJECT "/folder", PROJECT "/.git/folder"));
    tell("control-commit", rename(PROJECT "/.git/index", PROJECT "/.git/new"));
#endif
    tell("kernel", open("/proc/1/environ", O_RDONLY));
    tell("others", open("/proc", O_RDONLY | O_DIRECTORY));
    tell("parent-memory", open("/proc/self/../1/mem", O_RDONLY));
    tell("kill", kill(LAUNCHER, 0));
    tell("trace", ptrace(PTRACE_ATTACH, LAUNCHER, 0, 0));
    tell("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    tell("udp", socket(AF_INET, SOCK_DGRAM, 0));
    tell("tcp", tcp());
    tell("handle", syscall(SYS_open_by_handle_at, AT_FDCWD, how, 0));
    tell("namespace", unshare(CLONE_NEWUSER));
    tell("ring", syscall(425, 1, how));
    tell("listener", syscall(SYS_seccomp, 1, 8, NULL));
    printf("\n");
    fflush(stdout);
    return 0;
}

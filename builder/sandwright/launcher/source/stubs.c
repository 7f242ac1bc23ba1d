/* What isn't written yet. Each goes when its own file is there. */
#include <stdlib.h>

#include "launch.h"

#define STUB(declaration) __attribute__((weak)) declaration { refuse("%s isn't written yet", __func__); }
#pragma GCC diagnostic ignored "-Wunused-parameter"

__attribute__((weak)) const struct method bwrap_method = {.name = "bwrap"};
__attribute__((weak)) const struct method runtime_method = {.name = "runtime"};
__attribute__((weak)) const struct method engine_method = {.name = "engine"};
__attribute__((weak)) const struct method user_method = {.name = "user"};

STUB(void check_descriptors(struct run *run))
STUB(void check_path(struct run *run))
STUB(void check_artifacts(struct run *run))
STUB(void check_paths(struct run *run))
STUB(void sha256(const void *data, size_t length, unsigned char digest[32]))
STUB(void choose_environment(struct run *run))
STUB(const char *find_program(const struct run *run, const char *name))
STUB(void stream_keys(struct run *run))
STUB(void relay_streams(struct run *run))
STUB(int end_relays(struct run *run, int status))
STUB(void choose_run_directory(struct run *run))
STUB(void make_run_directory(struct run *run, const char *method))
STUB(void remove_tree(const char *path))
STUB(void lock_project(struct run *run))
STUB(void make_placeholders(struct run *run))
STUB(bool remove_placeholders(struct run *run, bool wait))
STUB(void egress_check(struct run *run))
STUB(bool egress_open(struct run *run, pid_t process, bool wait))
STUB(void egress_close(struct run *run))
STUB(void shims_check(struct run *run))
STUB(void shims_command(struct run *run))

/* What isn't written yet. */
#include "launch.h"

__attribute__((weak)) const struct method user_method = {.name = "user"};

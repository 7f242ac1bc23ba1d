# What the policy says, for the scripts beside this file.
sw_profile=ff4fa10c20c53c714b30c56a788a7df819b721cefc5f6773104666688d07c771
inside() {
    "$@" \
        /Users/ada/project/work \
        /dev/null \
        /dev/ptmx \
        /dev/tty \
        /dev/zero
}
passed() {
    "$@" \
        TERM \
        LANG \
        'LC_*' \
        PATH \
        HOME
}
never() {
    "$@" \
        SANDWRIGHT_INSIDE \
        TMPDIR \
        BASH_ENV \
        'DYLD_*' \
        ENV \
        GCONV_PATH \
        'GIT_CONFIG_*' \
        GIT_EXEC_PATH \
        GIT_SSH_COMMAND \
        IFS \
        JAVA_TOOL_OPTIONS \
        'LD_*' \
        NODE_OPTIONS \
        NODE_PATH \
        PERL5LIB \
        PERL5OPT \
        PROMPT_COMMAND \
        PYTHONHOME \
        PYTHONPATH \
        PYTHONSTARTUP \
        RUBYLIB \
        RUBYOPT
}
sw_proxy=
sw_tmp=/private/var/folders/x/T/sandwright-0123456789ab
sw_tells_tmp=yes
sw_files=
sw_time=
sw_uid=
sw_bridge=
sw_searches=
sw_search=''
links() {
    :
}
settings() {
    "$@" SANDWRIGHT_INSIDE 1
}
proxied() {
    :
}

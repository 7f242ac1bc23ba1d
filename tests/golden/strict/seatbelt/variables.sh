# The policy's settings, for the scripts in this directory.
sw_profile=39cb178234c656576869af57cff9d6603f5ccff813b39a167561569e7978ee20
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

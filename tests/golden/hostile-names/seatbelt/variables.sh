# The policy's settings, for the scripts in this directory.
sw_profile=c5cc9946a24886d3ed8bffb90fc73dc74ba78af5caafac960416f97f968ad742
inside() {
    "$@" \
        /Users/ada/-v \
        '/Users/ada/it'"'"'s a "project" $(x)' \
        /Users/ada/x,readonly:rw \
        /dev/null \
        /dev/ptmx \
        /dev/tty \
        /dev/zero
}
passed() {
    "$@" \
        TERM \
        COLORTERM \
        NO_COLOR \
        LANG \
        LANGUAGE \
        'LC_*' \
        TZ \
        USER \
        LOGNAME \
        SHELL \
        HOME \
        PATH \
        EDITOR
}
never() {
    "$@" \
        EMPTY \
        LINES \
        OPTION \
        QUOTES \
        SANDWRIGHT_INSIDE \
        SHELL_WORDS \
        TEMPLATE \
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
sw_files=4096
sw_time=
sw_uid=
sw_bridge=
sw_searches=
sw_search=''
links() {
    :
}
settings() {
    "$@" EMPTY ''
    "$@" LINES 'one
two
--share-net
'
    "$@" OPTION --privileged
    "$@" QUOTES 'it'"'"'s "quoted"'
    "$@" SANDWRIGHT_INSIDE 1
    "$@" SHELL_WORDS '$(id) `id` ; & | > $HOME \'
    "$@" TEMPLATE '{{ 7 * 7 }} {% raw %} %s'
}
proxied() {
    :
}

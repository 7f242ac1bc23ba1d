# inside.pl root PLACE PLAN MOUNT: makes a root at PLACE, as the words of PLAN say, each ended by NUL.
# inside.pl run PRCTL DIRECTORY COMMAND [ARGUMENT ...]: becomes the command, with the environment that descriptor 4
# says and under the filter of descriptor 5.
#
# For the first it is root of a mount namespace of its own, for the second it is the account already, and has no way
# back. MOUNT and PRCTL are the numbers of mount(2) and prctl(2) here; that of mount_setattr(2) is the same everywhere
# (Linux 5.12). It is Perl's core alone, which is a part of every Debian, and loads no module.
use strict;
use warnings;

my ($NOSUID, $NODEV, $NOEXEC, $BIND, $REC) = (2, 4, 8, 0x1000, 0x4000);    # linux/mount.h
my ($MOUNT_SETATTR, $CWD, $RECURSIVE) = (442, -100, 0x8000);               # linux/fcntl.h
my ($RDONLY, $SET_SECCOMP, $FILTER) = (1, 22, 2);                          # linux/prctl.h, linux/seccomp.h

sub refuse {
    print STDERR 'sandbox: ', @_, "\n";
    exit 125;
}

sub mounted {    # NUMBER SOURCE TARGET TYPE FLAGS DATA
    my ($number, $source, $target, $type, $flags, $data) = @_;
    -l $target and refuse("$target is a link");
    my $done = syscall($number, $source, $target, $type, $flags, $data);
    $done == 0 or refuse("$target can't be mounted: $!");
}

sub restricted {    # TARGET FLAGS DEPTH: adds flags to what is mounted there, and never takes one away
    my ($target, $flags, $depth) = @_;
    my $given = pack('Q4', $flags, 0, 0, 0);
    my $done = syscall($MOUNT_SETATTR, $CWD, $target, $depth, $given, length $given);
    $done == 0 or refuse("$target can't be restricted, for which Linux 5.12 is needed: $!");
}

sub directory {     # in memory of the sandbox's own
    my ($path) = @_;
    return if -d $path;
    directory($path =~ s{/[^/]*\z}{}r);
    mkdir $path, 0755 or refuse("$path can't be made: $!");
}

sub file {
    my ($path) = @_;
    directory($path =~ s{/[^/]*\z}{}r);
    open my $made, '>', $path or refuse("$path can't be made: $!");
    close $made;
}

sub devices {
    my ($number, $target) = @_;
    mounted($number, 'tmpfs', $target, 'tmpfs', $NOSUID | $NOEXEC, 'mode=0755');
    for my $name (qw(null zero full random urandom tty)) {
        file("$target/$name");
        mounted($number, "/dev/$name", "$target/$name", 0, $BIND, 0);
    }
    mkdir "$target/pts", 0755;
    mounted($number, 'devpts', "$target/pts", 'devpts', $NOSUID | $NOEXEC, 'newinstance,ptmxmode=0666,mode=620');
    mkdir "$target/shm";
    chmod 01777, "$target/shm";
    my %links = (fd => '', stdin => '/0', stdout => '/1', stderr => '/2');
    symlink "/proc/self/fd$links{$_}", "$target/$_" for keys %links;
    symlink 'pts/ptmx', "$target/ptmx";
}

sub loopback {      # SIOCSIFFLAGS, IFF_UP (linux/sockios.h, linux/if.h)
    socket my $any, 2, 2, 0 or refuse("there is no network namespace: $!");
    my $up = pack('a16 s x22', 'lo', 1);
    ioctl $any, 0x8914, $up or refuse("the loopback can't be brought up: $!");
}

sub bound {
    my ($number, $source, $target, $flags) = @_;
    mounted($number, $source, $target, 0, $BIND | $REC, 0);
    restricted($target, $flags | $NOSUID | $NODEV, $RECURSIVE);
}

sub root {
    my ($place, $plan, $number) = @_;
    $number += 0;
    open my $file, '<', $plan or refuse("$plan can't be read: $!");
    local $/ = "\0";
    chomp(my @words = <$file>);
    umask 022;
    my %steps = (
        'bind'     => [2, sub { bound($number, $_[0], $place . $_[1], 0) }],
        'ro-bind'  => [2, sub { bound($number, $_[0], $place . $_[1], $RDONLY) }],
        'try'      => [1, sub { bound($number, $_[0], $place . $_[0], $RDONLY) if -e $_[0] && -e $place . $_[0] }],
        'tmpfs'    => [2, sub { mounted($number, 'tmpfs', $place . $_[0], 'tmpfs', $NOSUID | $NODEV, "mode=$_[1]") }],
        'proc'     => [1, sub { mounted($number, 'proc', $place . $_[0], 'proc', $NOSUID | $NODEV | $NOEXEC, 0) }],
        'dev'      => [1, sub { devices($number, $place . $_[0]) }],
        'readonly' => [1, sub { restricted($place . $_[0], $RDONLY, 0) }],
        'directory' => [1, sub { directory($place . $_[0]) }],
        'file'     => [1, sub { file($place . $_[0]) }],
        'symlink'  => [2, sub { symlink $_[0], $place . $_[1] or refuse("$_[1] can't be made: $!") }],
        'loopback' => [0, \&loopback],
    );
    while (defined(my $word = shift @words)) {
        my $step = $steps{$word} or refuse("$plan says '$word', which is no step");
        @words >= $step->[0] or refuse("$plan ends too early");
        $step->[1]->(splice @words, 0, $step->[0]);
    }
}

sub environment {    # until an empty word: whoever writes it may keep the pipe open
    open my $said, '<&=', 4 or refuse("nobody says the environment: $!");
    local $/ = "\0";
    %ENV = ();
    while (defined(my $line = <$said>)) {
        chomp $line;
        return if $line eq '';
        my ($name, $value) = split /=/, $line, 2;
        $ENV{$name} = $value;
    }
    refuse('the environment ended too early');
}

sub run {
    my ($prctl, $directory, @command) = @_;
    environment();
    open my $file, '<&=', 5 or refuse("the filter can't be read: $!");
    binmode $file;
    my $filter = do { local $/; <$file> };
    chdir $directory or refuse("$directory can't be entered: $!");
    opendir my $open, '/proc/self/fd' or refuse("/proc can't be read: $!");
    for my $descriptor (grep { /^\d+$/ && $_ > 2 } readdir $open) {
        open my $inherited, '<&=', $descriptor or next;
        close $inherited;
    }
    my $program = pack('S x![P] P', length($filter) / 8, $filter);    # struct sock_fprog
    syscall($prctl + 0, $SET_SECCOMP, $FILTER, $program) == 0 or refuse("the filter can't be set: $!");
    { no warnings 'exec'; exec { $command[0] } @command };
    my $why = "$!";
    my @places = $command[0] =~ m{/} ? ('') : map { "$_/" } split /:/, $ENV{PATH} // '';
    my $there = grep { -e "$_$command[0]" } @places;    # a place that may not be looked at has nothing
    print STDERR "sandbox: $command[0]: ", $there ? $why : 'not found', "\n";
    exit($there ? 126 : 127);
}

my $mode = shift @ARGV;
$mode eq 'root' ? root(@ARGV) : run(@ARGV);

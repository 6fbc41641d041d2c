# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_forgefs_global_optspecs
    string join \n json q/quiet v/verbose state-dir= h/help V/version
end

function __fish_forgefs_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_forgefs_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_forgefs_using_subcommand
    set -l cmd (__fish_forgefs_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c forgefs -n "__fish_forgefs_needs_command" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_needs_command" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_needs_command" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_needs_command" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c forgefs -n "__fish_forgefs_needs_command" -s V -l version -d 'Print version'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "mount" -d 'Mount one exact commit read-only'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "umount" -d 'Unmount a forgefs mount'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "prove" -d 'Recompute the tree id of a directory through the kernel'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "seed" -d 'Make a private, writable, self-contained repository at one exact commit'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "ls" -d 'List what exists: live, dead, whose'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "doctor" -d 'Say what this host, and a repository and commit, can do'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "completions" -d 'Print a completion script for a shell, or the man page'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "__serve" -d 'The daemon itself; started by `mount`'
complete -c forgefs -n "__fish_forgefs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l owner -d 'Show every entry as owned by UID:GID [default: the caller]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l cache-bytes -d 'How much content the daemon keeps in memory, for instance 64M' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l mtime -d 'The time that every entry shows: the committer\'s, or that of the mount' -r -f -a "commit\t''
mount\t''"
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l threads -d 'How many requests are served at once [default: the number of processors, 2 to 8]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l log-max-bytes -d 'How much the daemon\'s log may hold, head and tail together' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -s f -l foreground -d 'Stay in the foreground'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l mkdir -d 'Make DIR if it is missing (its parent must exist)'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l allow-other -d 'Let other users read the mount (as non-root needs user_allow_other in /etc/fuse.conf)'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l noexec -d 'Forbid running programs from the mount'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l xattrs -d 'Answer getxattr for user.forgefs.oid, user.forgefs.commit and user.forgefs.tree'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l strict -d 'Refuse where `doctor` has something to note about the repository or commit'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand mount" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -l lazy -d 'Detach now, even when busy; the mount ends when its last user is gone'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -l abort -d 'Abort the FUSE connection first: frees every process that waits for it'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand umount" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l repo -d 'The repository that knows the commit' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l sha -d 'The full id of the commit that DIR must equal; with --manifest, the one it must be for' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l manifest -d 'Prove against a manifest instead of a repository' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l write-manifest -d 'Write the manifest of the commit, for proofs without the repository' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -s o -l output -d 'Write the proof record' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l max-entries -d 'Refuse more entries than this' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l max-bytes -d 'Refuse more content than this, for instance 10G' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l max-depth -d 'Refuse deeper directories than this' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l timeout -d 'Give up (not proven) after this long, for instance 90s or 10m' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l threads -d 'How many threads read and hash [default: the number of processors, 1 to 8]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand prove" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l from -d 'Unpack a seed that --format pack wrote (`-` is standard input) into DIR' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l format -d 'What is written: a workspace, seed.pack with seed.json, or one tar' -r -f -a "repo\t'A workspace'
pack\t'`seed.pack` and `seed.json`'
tar\t'A tar of the workspace'"
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l history -d 'How many commits go along: the one, N levels of parents, or all' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l branch -d 'The branch that the workspace is on' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l origin -d 'What becomes of the remote origin; its URL is kept only without a credential' -r -f -a "none\t'No remote'
strip\t'Without credentials'
carry\t'As it is; refused where it carries a credential'"
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l worktree -d 'What stands beside .git: all files, layers for overlayfs above a mount, or nothing' -r -f -a "files\t'All files'
overlay\t'Layers for overlayfs'
none\t'Nothing'"
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l source -d 'The mount of the commit below an overlay workspace [default: a new one at DIR/source]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l owner -d 'Show entries of a mount below, or write those of a tar, as owned by UID:GID [default: the caller]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l max-entries -d 'Refuse a commit with more files and directories than this' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l threads -d 'How many threads work [default: the number of processors, 1 to 8]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l verify -d 'Hash the pack layer of an overlay workspace even where it was checked before'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l no-cache -d 'Do without the seed cache; an overlay workspace cannot'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l detach -d 'Be on no branch'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l mount -d 'Mount the merged view of an overlay workspace at DIR/merged'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l allow-other -d 'Let other users read the mount below'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l strict -d 'Refuse where `doctor` has something to note about the repository or commit'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand seed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -l mounts -d 'List mounts alone'
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand ls" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -l runtime -d 'Say whether a container of this runtime could read a mount' -r -f -a "host\t''
docker\t''
podman\t''
bwrap\t''"
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -l user -d 'The user in the container, as UID[:GID]' -r
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -l strict -d 'Treat what is noted as unsupported'
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand completions" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand completions" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand completions" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand completions" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c forgefs -n "__fish_forgefs_using_subcommand __serve" -l state-dir -d 'Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]' -r -F
complete -c forgefs -n "__fish_forgefs_using_subcommand __serve" -l json -d 'Print one JSON object instead of text; errors become one JSON object on standard error'
complete -c forgefs -n "__fish_forgefs_using_subcommand __serve" -s q -l quiet -d 'Say nothing but errors'
complete -c forgefs -n "__fish_forgefs_using_subcommand __serve" -s v -l verbose -d 'Say more; twice for everything'
complete -c forgefs -n "__fish_forgefs_using_subcommand __serve" -s h -l help -d 'Print help'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "mount" -d 'Mount one exact commit read-only'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "umount" -d 'Unmount a forgefs mount'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "prove" -d 'Recompute the tree id of a directory through the kernel'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "seed" -d 'Make a private, writable, self-contained repository at one exact commit'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "ls" -d 'List what exists: live, dead, whose'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "doctor" -d 'Say what this host, and a repository and commit, can do'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "completions" -d 'Print a completion script for a shell, or the man page'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "__serve" -d 'The daemon itself; started by `mount`'
complete -c forgefs -n "__fish_forgefs_using_subcommand help; and not __fish_seen_subcommand_from mount umount prove seed ls doctor completions __serve help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'

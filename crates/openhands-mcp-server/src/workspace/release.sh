# Whether the process, the shell of a terminal, is at its prompt.
is_at_prompt() {
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${line##*) }
    [ "$3" = "$6" ]
}

has_ended() {
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${line##*) }
    [ "$1" = Z ]
}

# Lets the commands that are `held` go on.
let_go() {
    for item in $held; do kill -CONT "${item#command:}"; done 2>/dev/null
    return 0
}

# Ends the commands that are `held`. Shells between a terminal and a command are killed, because they would go on; the
# others get the signal that they expect, and are killed after half a second. Fails if a line goes on, or may have gone on
# since its timer has ended.
release() {
    went_on=0
    for item in $held; do
        case $item in
        command:*) ;;
        timer:*) kill "${item#*:}" || went_on=1; continue ;;
        *) continue ;;
        esac
        case $(cat "/proc/${item#*:}/comm") in
        *sh | su | busybox) kill -KILL "${item#*:}" ;;
        *) kill -INT "${item#*:}" ;;
        esac
    done 2>/dev/null
    let_go
    for attempt in 1 2 3 4 5 6 7 8; do
        [ "$attempt" -ne 3 ] || for item in $held; do kill -KILL "${item#command:}"; done 2>/dev/null
        busy=
        for item in $held; do
            case $item in
            timer:*) ;;
            shell:*) is_at_prompt "${item#*:}" || busy=1 ;;
            *) has_ended "${item#*:}" || busy=1 ;;
            esac
        done
        [ -n "$busy" ] || return "$went_on"
        sleep 0.25
    done
    return 1
}


# Prints the processes that still run in the directory `dir`, or in a terminal of the agent that began there: lines of their
# id and name. With `ends` they are killed: lines of "ended" and their names are printed, and those that are left. The
# shells of terminals stay, and all that runs in a terminal of a person.

# Lines of id and session of the processes with a terminal.
in_terminals() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        sed -n 's/^\([0-9]*\) (.*) [A-Za-z] [-0-9]* [-0-9]* \([0-9]*\) [1-9].*/\1 \2/p'
}

terminals=
for shell in $(in_terminals | awk '$1 == $2 { print $1 }'); do
    ! { began_there "$shell" && is_agents "$shell"; } || terminals="$terminals $shell"
done

# Lines of the ids of processes there. One program for all of them: there may be hundreds.
found() {
    ls -ld /proc/[0-9]*/cwd 2>/dev/null | while read -r line; do
        process=${line#* /proc/} at=${line#*/cwd -> }
        case $at/ in "$dir"/*) printf '%s\n' "${process%%/*}" ;; esac
    done
    in_terminals | while read -r id session; do
        case " $terminals " in *" $session "*) printf '%s\n' "$id" ;; esac
    done
}

left_over() {
    found | sort -nu | while read -r id; do
        case " $above " in *" $id "*) continue ;; esac
        line=$(cat "/proc/$id/stat" 2>/dev/null) || continue
        # Its state, parent, group, session and terminal.
        set -- ${line##*) }
        [ "$1" != Z ] || continue
        [ "$5" = 0 ] || { [ "$4" != "$id" ] && is_agents "$4"; } || continue
        printf '%s %s\n' "$id" "$(cat "/proc/$id/comm" 2>/dev/null)"
    done
}

for attempt in 1 2 3 4 5 6 7 8; do
    found=$(left_over)
    [ -n "$found" ] || exit 0
    if [ -n "$ends" ] && [ "$attempt" -ge 3 ]; then
        [ "$attempt" -gt 3 ] || printf '%s\n' "$found" | sed 's/^[0-9]*/ended/'
        kill -KILL $(printf '%s\n' "$found" | cut -d ' ' -f 1) 2>/dev/null
    fi
    sleep 0.25
done
left_over
exit 0

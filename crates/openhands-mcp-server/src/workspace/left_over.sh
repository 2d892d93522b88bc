# Prints the processes that still run in the directory `dir`: lines of their id and name. With `ends` they are killed:
# lines of "ended" and their names are printed, and those that are left. The shells of terminals stay, and all that runs
# in a terminal of a person.

left_over() {
    # One program for all processes: there may be hundreds.
    ls -ld /proc/[0-9]*/cwd 2>/dev/null | while read -r line; do
        process=${line#* /proc/} at=${line#*/cwd -> }
        id=${process%%/*}
        case " $above " in *" $id "*) continue ;; esac
        case $at/ in "$dir"/*) ;; *) continue ;; esac
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

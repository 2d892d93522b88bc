# Prints the processes that still run in the directory `dir`: lines of their id and name. With `ends` they are killed,
# and those that are left are printed. The shells of terminals stay.
cd / && [ -r /proc/self/stat ] || exit 74
above= next=$$
while [ "${next:-0}" -gt 1 ]; do
    above="$above $next"
    line=$(cat "/proc/$next/stat" 2>/dev/null) || break
    set -- ${line##*) }
    next=$2
done

left_over() {
    for process in /proc/[0-9]*; do
        id=${process#/proc/}
        case " $above " in *" $id "*) continue ;; esac
        at=$(readlink "$process/cwd" 2>/dev/null) || continue
        case $at/ in "$dir"/*) ;; *) continue ;; esac
        line=$(cat "$process/stat" 2>/dev/null) || continue
        # Its state, parent, group, session and terminal.
        set -- ${line##*) }
        [ "$1" != Z ] || continue
        [ "$4" != "$id" ] || [ "$5" = 0 ] || continue
        printf '%s %s
' "$id" "$(cat "$process/comm" 2>/dev/null)"
    done
}

for attempt in 1 2 3 4 5 6 7 8; do
    found=$(left_over)
    [ -n "$found" ] || exit 0
    [ -z "$ends" ] || [ "$attempt" -lt 3 ] || kill -KILL $(printf '%s
' "$found" | cut -d ' ' -f 1) 2>/dev/null
    sleep 0.25
done
left_over
exit 0

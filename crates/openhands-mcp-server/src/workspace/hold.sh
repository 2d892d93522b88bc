# Holds the commands in the terminals of the agent in the directory `dir`, if they run since second `from`: none of their
# shells goes on with the rest of its line when a command ends. Prints lines of "shell" or "command" and an id.
# `release` ends the commands once the agent has stopped. Otherwise they go on: after a minute also if nobody comes to it,
# by the process "timer".
ticks=$(getconf CLK_TCK 2>/dev/null || echo 100)
boot=$(awk -v now="$(date +%s.%N)" '{ printf "%.2f", now - $1 }' /proc/uptime)

# Lines of id, parent, group, session, terminal, foreground group and time of the start.
processes() {
    cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^\([0-9]*\) (.*) [A-Za-z] \([-0-9 ]*\)$/\1 \2/p' |
        awk -v boot="$boot" -v ticks="$ticks" '{ printf "%s %s %s %s %s %s %.2f\n", $1, $2, $3, $4, $5, $6, boot + $20 / ticks }'
}

# The commands in the foreground of the terminal of shell $1, with all between them and the shell, and their parents.
commands_of() {
    processes | awk -v shell="$1" -v from="$from" '
        $4 == shell && $1 != shell { parent[$1] = $2; if ($3 == $6 && $7 >= from) front[$1] = 1 }
        END { for (id in front) while (id in parent && !(id in shown)) { shown[id] = 1; print id, parent[id]; id = parent[id] } }'
}

held=
# Those that wait for a command.
for shell in $(processes | awk '$1 == $4 && $5 != 0 && $3 != $6 { print $1 }'); do
    began_there "$shell" || [ "$(readlink "/proc/$shell/cwd")" = "$dir" ] || continue
    is_agents "$shell" && [ -n "$(commands_of "$shell")" ] || continue
    # It drops its line when the command ends; one that ignores the signal can only be killed.
    case $(sed -n 's/^SigIgn:.*\(.\)$/\1/p' "/proc/$shell/status") in
    [2367abef]) kill -KILL "$shell" ;;
    *) kill -INT "$shell" ;;
    esac
    held="$held shell:$shell"
    # The shell would notice that its own child is stopped. A shell between it and a command waits for that one. A command
    # may have started another before it was stopped.
    for round in 1 2 3; do
        for line in $(commands_of "$shell" | tr ' ' :); do
            id=${line%:*}
            case "$held " in *" command:$id "*) continue ;; esac
            held="$held command:$id"
            [ "${line#*:}" = "$shell" ] || kill -STOP "$id" 2>/dev/null
        done
    done
done
[ -n "$held" ] || exit 0
(sleep 60; let_go) </dev/null >/dev/null 2>&1 &
printf '%s\n' $held "timer:$!"
exit 0

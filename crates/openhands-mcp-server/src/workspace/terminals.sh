# Functions for the processes of the machine, and `above`: the processes that have started this script.
[ -r /proc/self/stat ] || exit 74
# As the system names it, without links.
dir=$(cd -P -- "$dir" 2>/dev/null && pwd || printf '%s' "$dir")
cd / || exit 74
above= next=$$
while [ "${next:-0}" -gt 1 ]; do
    above="$above $next"
    line=$(cat "/proc/$next/stat" 2>/dev/null) || break
    set -- ${line##*) }
    next=$2
done

# Whether the process began in the directory.
began_there() {
    at=$(tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n 's/^PWD=//p')
    [ "$(cd -P -- "${at:-/}" 2>/dev/null && pwd)" = "$dir" ]
}

# Whether the agent server has started this session: by itself, or with its tmux.
is_agents() {
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${line##*) }
    case " $above " in *" $2 "*) return 0 ;; esac
    tr '\0' ' ' <"/proc/$2/cmdline" 2>/dev/null | grep -q '^[^ ]*tmux [^ ]*openhands'
}

